"""ModelService: what the catalogue offers."""

from __future__ import annotations

from typing import Any

import grpc

from netaclaw.model.v1 import model_service_pb2 as pb
from netaclaw.model.v1.model_service_pb2_grpc import ModelServiceServicer
from netaclaw_agent.models.catalogue import ModelCatalogue
from netaclaw_orchestrator.paging import page_of

Context = grpc.aio.ServicerContext[Any, Any]


class ModelServicer(ModelServiceServicer):
    """Tells of this instance's catalogue; asks no provider."""

    def __init__(self, models: ModelCatalogue) -> None:
        self._models = models.listed()

    async def ListModels(self, request: pb.ListModelsRequest, context: Context) -> pb.ListModelsResponse:
        models, more = page_of(self._models, request.page_size, request.page_token)
        return pb.ListModelsResponse(models=models, next_page_token=more)
