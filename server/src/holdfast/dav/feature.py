"""The parts of the service that the network drive contributes."""

from fastapi import FastAPI
from starlette.routing import Route

from holdfast.archives.feature import ArchiveIndex
from holdfast.dav.app import Dav
from holdfast.dav.places import ROOT
from holdfast.repositories.own_places import ServicePlaces
from holdfast.storage.session import Database


def install(app: FastAPI, database: Database, index: ArchiveIndex, own_places: ServicePlaces) -> None:
    """Depends on restores, for the downloads and their rules, and on the limits of requests that need the engine."""
    state = app.state
    drive = Dav(database, index, own_places, state.downloads, state.download_rules, state.engine_requests)
    for path in (ROOT.decode(), f"{ROOT.decode()}/{{path:path}}"):
        app.router.routes.append(Route(path, drive, include_in_schema=False))
