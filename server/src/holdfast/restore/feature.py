"""What restores bring to the service."""

from fastapi import APIRouter, FastAPI

from holdfast.repositories.location import Opener
from holdfast.restore import routes as restore_routes
from holdfast.restore.download import routes as download_routes
from holdfast.restore.download.opening import Downloads
from holdfast.restore.preview import Previews
from holdfast.restore.restore_archive import kind as restore_kind
from holdfast.runner.inline import InlineCalls

__all__ = ["ROUTERS", "install", "restore_kind"]

ROUTERS: tuple[APIRouter, ...] = (restore_routes.routes, download_routes.routes)


def install(app: FastAPI, inline: InlineCalls, opener: Opener) -> None:
    """Give the routes what they ask for."""
    app.state.restore_previews = Previews(inline, opener)
    app.state.downloads = Downloads(inline, opener)
