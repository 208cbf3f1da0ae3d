"""The parts of the service that agents contribute."""

from functools import partial

from fastapi import APIRouter

from holdfast.agents import install_routes, routes, runtime_routes
from holdfast.agents.backups import BackupStarter
from holdfast.agents.called_engines import CalledEngines
from holdfast.agents.gateway import Gateway
from holdfast.agents.hot_path import HotPath
from holdfast.agents.setup import kinds
from holdfast.api.app import Application

__all__ = ["ROUTERS", "CalledEngines", "Gateway", "install", "kinds"]

ROUTERS: tuple[APIRouter, ...] = (runtime_routes.routes, routes.routes, install_routes.routes)


def install(app: Application, gateway: Gateway, start_backup: BackupStarter) -> None:
    """Give the routes their objects."""
    app.state.agents = gateway
    app.put_before(partial(HotPath, gateway=gateway))
    app.state.agent_backup_starter = start_backup
    app.state.streamed_paths = ("/api/agents/calls/",)
