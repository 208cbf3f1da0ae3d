"""What the network drive contributes to the service."""

from starlette.convertors import PathConvertor, register_url_convertor
from starlette.routing import Route

from holdfast.api.app import Application
from holdfast.api.dependencies import DATABASE
from holdfast.archives.archive_index import ARCHIVE_INDEX
from holdfast.dav.app import Dav
from holdfast.dav.places import ROOT, Places
from holdfast.downloads.lookup import ARCHIVE_LOOKUP
from holdfast.downloads.opening import DOWNLOADS
from holdfast.downloads.response import DOWNLOAD_RULES
from holdfast.operations.manifest import Feature
from holdfast.runner.engine_requests import ENGINE_REQUESTS


class AnyPath(PathConvertor):
    """A path of arbitrary bytes: file names may contain newlines, which the framework's convertor does not match."""

    regex = r"[\s\S]*"


register_url_convertor("any_path", AnyPath())


def _install(app: Application) -> None:
    """Add the drive. It depends on downloads and their rules, and on the limits of requests that need the engine."""
    parts = app.parts
    drive = Dav(
        parts[DATABASE],
        parts[ARCHIVE_INDEX],
        Places(parts[DATABASE], parts[ARCHIVE_INDEX]),
        parts[ARCHIVE_LOOKUP],
        parts[DOWNLOADS],
        parts[DOWNLOAD_RULES],
        parts[ENGINE_REQUESTS],
    )
    for path in (ROOT.decode(), f"{ROOT.decode()}/{{path:any_path}}"):
        app.router.routes.append(Route(path, drive, include_in_schema=False))


FEATURE = Feature(name="dav", install=_install)
