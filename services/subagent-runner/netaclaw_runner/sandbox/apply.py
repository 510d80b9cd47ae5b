"""Confining a new worker, once and for good, in the order that the layers demand of each other.

private root (root) → user id → user namespace (→ private root) → limits → no_new_privs → death with the parent →
capabilities → Landlock → system call filter. Each step is reported when it has succeeded, and only then.
"""

from __future__ import annotations

import errno
import os
import signal
from collections.abc import Callable
from dataclasses import dataclass

from netaclaw_runner.sandbox import identity, kernel, landlock, namespaces, private_root, rlimits, seccomp
from netaclaw_runner.sandbox.options import LaunchOptions, SandboxSettings
from netaclaw_runner.sandbox.report import Report


@dataclass(frozen=True, slots=True)
class Border:
    """What stands around a worker before it is confined."""

    in_force: tuple[str, ...]
    """Such as "pid_namespace" or "subreaper"."""
    id_map: int | None = None
    """A user namespace that maps the workspace's owner to the worker's user."""
    network: int | None = None
    """An empty network namespace to enter."""


@dataclass(frozen=True, slots=True)
class Confined:
    """A worker after its confinement."""

    report: Report
    workspace: int | None
    """The descriptor to use from now on; the one that was handed in may be closed."""
    refused: bool
    """Mode `required`, and a required layer is missing: the worker must not run."""


def apply(options: LaunchOptions, workspace: int | None, border: Border, settings: SandboxSettings) -> Confined:
    """Confine this process, which must be single-threaded. Never raises for a layer that cannot be had."""
    confinement = _Confinement(options, workspace, border, settings)
    confinement.report.in_force += border.in_force
    confinement.step("pdeathsig", confinement.die_with_parent)
    if options.sandbox != "off":
        confinement.confine()
    elif os.geteuid() != 0:
        # The zygote of an ordinary user holds capabilities in its own user namespace; its runner never had any.
        confinement.step("no_capabilities", kernel.drop_capabilities)
    report = confinement.report
    report.close()
    report.missing += confinement.gaps()
    refused = options.sandbox == "required" and bool(report.lacking())
    return Confined(report, confinement.workspace, refused)


class _Confinement:
    def __init__(
        self, options: LaunchOptions, workspace: int | None, border: Border, settings: SandboxSettings
    ) -> None:
        self.options = options
        self.workspace = workspace
        self.report = Report()
        self._border = border
        self._settings = settings
        self._mapped = False
        self._rooted = False

    def step(self, layer: str, action: Callable[[], str | None]) -> None:
        """Do one step and report it: in force, with the detail that it returns, or missing."""
        try:
            detail = action()
        except OSError:
            self.report.missing.append(layer)
        else:
            self.report.in_force.append(f"{layer}:{detail}" if detail else layer)

    def confine(self) -> None:
        process = os.open("/proc/self", os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            if self._border.network is not None:
                self._enter_network(self._border.network)
            if os.geteuid() == 0:
                self._enter_root_as_root()
            self.step("uid", self._change_user)
            self._enter_namespaces(process)
        finally:
            os.close(process)
        self.step("rlimits", self._limit)
        self.step("no_new_privs", lambda: kernel.prctl(kernel.PR_SET_NO_NEW_PRIVS, 1))
        self.die_with_parent()  # anew, for the change of user has cleared it
        kernel.prctl(kernel.PR_SET_DUMPABLE, 0)
        self.step("no_capabilities", kernel.drop_capabilities)
        self.step("landlock", self._restrict_files)
        self.step("seccomp", lambda: seccomp.restrict(self.options))
        self._note_consequences()

    def die_with_parent(self) -> None:
        kernel.prctl(kernel.PR_SET_PDEATHSIG, signal.SIGKILL)

    def gaps(self) -> list[str]:
        """Known gaps that are open in this worker."""
        found = []
        filtered = self.report.has("seccomp")
        if not self._rooted:
            found.append("stat_outside")
            if not filtered or (self.options.writable and self.options.shell):
                found.append("chmod_outside")
        if not self.report.has("no_programs"):
            found.append("aggregate_memory")
        return found

    def _enter_network(self, network: int) -> None:
        try:
            kernel.setns(network, kernel.NEWNET)
        except OSError:
            return  # one of its own, later
        self.report.in_force.append("net_namespace")

    def _enter_root_as_root(self) -> None:
        """As root, paths are within reach that the worker's user may not traverse."""
        tree = None
        try:
            if self.workspace is not None:
                tree, self._mapped = private_root.clone_workspace(self.workspace, self._border.id_map)
            kernel.unshare(kernel.NEWNS)
        except OSError:
            self._mapped = False
            if tree is not None:
                os.close(tree)
            return  # root of a container: its own user namespace may still give what it lacks
        self.step("mount_namespace", lambda: self._enter_root(tree, detached=True))
        if not self._rooted:
            self._mapped = False

    def _enter_root(self, tree: int | None, *, detached: bool) -> None:
        inner = private_root.enter(tree, self.options, self._settings.limits.scratch, detached=detached)
        self._rooted = True
        if tree is not None:
            os.close(tree)
        if self.workspace is not None:
            os.close(self.workspace)
        self.workspace = inner

    def _change_user(self) -> str:
        if os.geteuid() == 0:
            uid, gid = identity.choose(
                self.workspace, self._settings.worker_uid, mapped=self._mapped, writable=self.options.writable
            )
            if uid == 0:
                raise OSError(errno.EPERM, "only root may use this workspace")
            identity.become(uid, gid)
        return str(os.geteuid())

    def _enter_namespaces(self, process: int) -> None:
        """All at once, for each costs a call; without the new root where it stands already."""
        tried = {*self.report.in_force, *self.report.missing}
        want = {name: flag for name, flag in namespaces.NAMES.items() if name not in tried}
        try:
            namespaces.enter_user(process, sum(want.values()))
        except OSError:
            self._enter_what_there_is(process, want)
            return
        self.report.in_force += ["user_namespace", *(name for name in want if name != "mount_namespace")]
        if "mount_namespace" in want:
            self.step("mount_namespace", self._enter_root_as_user)

    def _enter_what_there_is(self, process: int, want: dict[str, int]) -> None:
        try:
            namespaces.enter_user(process, 0)
            self.report.in_force.append("user_namespace")
        except OSError:
            self.report.missing.append("user_namespace")
        for name, flag in want.items():
            if name == "mount_namespace":
                self.report.missing.append(name)
            else:
                self.step(name, lambda flag=flag: kernel.unshare(flag))  # type: ignore[misc]  # bound now

    def _enter_root_as_user(self) -> None:
        tree = None if self.workspace is None else private_root.open_again(self.workspace)
        self._enter_root(tree, detached=False)

    def _limit(self) -> None:
        own_count = self.report.has("user_namespace") and os.geteuid() != 0  # root is exempt from the limit
        rlimits.restrict(self._settings.limits, self.options, own_count=own_count)
        if own_count:
            self.report.in_force.append(f"process_limit:{self._settings.limits.processes}")

    def _restrict_files(self) -> str:
        rules: list[tuple[int | str, int]] = []
        run = landlock.EXECUTE if self.options.shell else 0
        if self.workspace is not None:
            access = landlock.EVERYTHING & ~landlock.EXECUTE if self.options.writable else landlock.READ
            rules.append((self.workspace, access | run))
        if self.options.shell:
            rules += [(path, landlock.READ | landlock.EXECUTE) for path in private_root.PROGRAMS]
            rules += [(path, landlock.READ) for path in private_root.CONFIGURATION]
            rules += [(path, landlock.DEVICE) for path in private_root.DEVICES]
            if self._rooted:
                rules.append((private_root.SCRATCH, landlock.EVERYTHING))
        version = landlock.restrict(rules)
        if version >= landlock.SCOPE_VERSION:
            self.report.in_force.append("landlock_scope")
        return str(version)

    def _note_consequences(self) -> None:
        """What the filter gives besides: without programs there is one process, and its limits are the worker's."""
        if self.report.has("seccomp") and not self.options.shell:
            self.report.in_force.append("no_programs")
            if not self.report.has("process_limit"):
                self.report.in_force.append("process_limit:1")
