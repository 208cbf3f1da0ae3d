"""The parts of the service that restores contribute."""

from holdfast.api.dependencies import DATABASE, SETTINGS
from holdfast.operations.manifest import Feature
from holdfast.repositories.location import OPENER
from holdfast.repositories.own_places import OWN_PLACES
from holdfast.restore import restore_archive, routes
from holdfast.restore.download import routes as download_routes
from holdfast.restore.download.file_preview import routes as preview_routes
from holdfast.restore.download.lookup import ARCHIVE_LOOKUP, ArchiveLookup
from holdfast.restore.download.opening import CONTENTS, DOWNLOADS, Downloads
from holdfast.restore.download.response import DOWNLOAD_RULES, DownloadRules
from holdfast.restore.download.tickets import routes as ticket_routes
from holdfast.restore.grants import routes as grant_routes
from holdfast.restore.preview import PREVIEWS, Previews
from holdfast.restore.to_agent import routes as to_agent_routes
from holdfast.restore.to_agent.pouring import POURINGS, Pourings
from holdfast.runner.inline import INLINE_CALLS

FEATURE = Feature(
    name="restore",
    routers=(
        routes.routes,
        download_routes.routes,
        preview_routes,
        ticket_routes.routes,
        to_agent_routes.routes,
        grant_routes.routes,
    ),
    provides=(
        PREVIEWS.made_by(lambda parts: Previews(parts[DATABASE], parts[INLINE_CALLS], parts[OPENER])),
        ARCHIVE_LOOKUP.made_by(lambda parts: ArchiveLookup(parts[DATABASE], parts[OWN_PLACES])),
        DOWNLOADS.made_by(lambda parts: Downloads(parts[INLINE_CALLS], parts[OPENER], parts[CONTENTS])),
        DOWNLOAD_RULES.made_by(lambda parts: DownloadRules(parts[SETTINGS], parts[DATABASE])),
        POURINGS.made_by(lambda parts: Pourings(parts[DATABASE], parts[INLINE_CALLS], parts[OPENER])),
    ),
    kinds=lambda parts: (restore_archive.kind(parts[OPENER]),),
)
