"""The runner's composition root."""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager

from netaclaw.subagent.v1 import runner_service_pb2 as runner_pb2
from netaclaw.subagent.v1.runner_service_pb2_grpc import add_RunnerServiceServicer_to_server
from netaclaw_agent.models.catalogue import ModelCatalogue
from netaclaw_chassis.lifecycle import Ports, StartError
from netaclaw_chassis.link import check_exposure, load
from netaclaw_chassis.server import GrpcServer, PortInUse, Servicer
from netaclaw_runner.hosts import ToolHosts
from netaclaw_runner.launcher import Launcher, LaunchError
from netaclaw_runner.limits import Limits
from netaclaw_runner.places import Places
from netaclaw_runner.service import RunnerService
from netaclaw_runner.settings import ATTACH_GRACE_S, RunnerSettings
from netaclaw_runner.supervisor import Supervisor
from netaclaw_runner.workspaces import Workspaces
from netaclaw_runner.zygote.launcher import best_launcher

log = logging.getLogger(__name__)


@asynccontextmanager
async def open_app(
    settings: RunnerSettings,
    models: ModelCatalogue | None = None,
    *,
    limits: Limits | None = None,
    launcher: Launcher | None = None,
) -> AsyncIterator[Ports]:
    """A serving runner, and its address as "internal". Models that were handed in stay the caller's.

    On the way out it takes no new work, ends every run and tool host, lets their streams finish, and stops serving.
    """
    token, link = settings.service_token, load(settings.link)
    check_exposure(settings.host, token, link, "NETACLAW_RUNNER_HOST")
    limits = limits or Limits(
        hold_s=settings.lease_seconds + ATTACH_GRACE_S, compaction_threshold=settings.compaction_threshold
    )
    async with AsyncExitStack() as stack:
        if launcher is None:
            launcher = await _launcher(stack)
        catalogue = models
        if catalogue is None:
            catalogue = ModelCatalogue(settings.models)
            stack.push_async_callback(catalogue.close)
        workspaces = Workspaces(settings.data_dir, settings.workspaces)
        places = Places(settings.place_limits)
        supervisor = Supervisor(launcher, catalogue, workspaces, limits=limits, places=places)
        hosts = ToolHosts(launcher, workspaces, limits=limits, max_hosts=settings.max_workers)
        service = RunnerService(supervisor, hosts, limits=limits, max_workers=settings.max_workers)
        name = runner_pb2.DESCRIPTOR.services_by_name["RunnerService"].full_name
        servicer = Servicer(name, add_RunnerServiceServicer_to_server, service)
        server = GrpcServer(settings.host, settings.port, [servicer], service_token=token, link=link)
        try:
            await server.start()
        except PortInUse as error:
            raise StartError(str(error)) from error
        for stop in (server.stop, hosts.stop, service.dismiss, supervisor.stop):  # undone in reverse
            stack.push_async_callback(stop)
        yield {"internal": server.address}


async def _launcher(stack: AsyncExitStack) -> Launcher:
    """The strongest launcher of this machine; its zygote ends with the stack."""
    try:
        launcher, zygote = await best_launcher()
    except LaunchError as error:
        raise StartError(f"workers cannot be started: {error}") from error
    if zygote is not None:
        stack.push_async_callback(zygote.close)
    log.info("workers", extra={"in_force": launcher.sandbox.in_force, "missing": launcher.sandbox.missing})
    return launcher
