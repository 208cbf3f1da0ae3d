"""The parts of the service that restores contribute."""

from fastapi import APIRouter, FastAPI

from holdfast.repositories.location import Opener
from holdfast.restore import routes as restore_routes
from holdfast.restore.download import routes as download_routes
from holdfast.restore.download.file_preview import routes as preview_routes
from holdfast.restore.download.opening import Contents, Downloads
from holdfast.restore.download.response import DownloadRules
from holdfast.restore.download.tickets import routes as ticket_routes
from holdfast.restore.grants import routes as grant_routes
from holdfast.restore.preview import Previews
from holdfast.restore.restore_archive import kind as restore_kind
from holdfast.restore.to_agent import routes as to_agent_routes
from holdfast.restore.to_agent.pouring import Pourings
from holdfast.runner.inline import InlineCalls
from holdfast.storage.session import Database

__all__ = ["ROUTERS", "install", "restore_kind"]

ROUTERS: tuple[APIRouter, ...] = (
    restore_routes.routes,
    download_routes.routes,
    preview_routes,
    ticket_routes.routes,
    to_agent_routes.routes,
    grant_routes.routes,
)


def install(app: FastAPI, database: Database, inline: InlineCalls, opener: Opener, contents: Contents) -> None:
    """Give the routes what they ask for."""
    app.state.restore_previews = Previews(inline, opener)
    app.state.downloads = Downloads(inline, opener, contents)
    app.state.download_rules = DownloadRules(app.state.settings, database)
    app.state.restore_pourings = Pourings(database, inline, opener)
