"""What downloads contribute to the service."""

from holdfast.api.dependencies import DATABASE, SETTINGS
from holdfast.downloads import routes
from holdfast.downloads.file_preview import routes as preview_routes
from holdfast.downloads.lookup import ARCHIVE_LOOKUP, ArchiveLookup
from holdfast.downloads.opening import CONTENTS, DOWNLOADS, Downloads
from holdfast.downloads.response import DOWNLOAD_RULES, DownloadRules
from holdfast.downloads.tickets import routes as ticket_routes
from holdfast.operations.manifest import Feature
from holdfast.repositories.location import OPENER
from holdfast.repositories.own_places import OWN_PLACES
from holdfast.runner.inline import INLINE_CALLS

FEATURE = Feature(
    name="downloads",
    routers=(routes.routes, preview_routes, ticket_routes.routes),
    provides=(
        ARCHIVE_LOOKUP.made_by(lambda parts: ArchiveLookup(parts[DATABASE], parts[OWN_PLACES])),
        DOWNLOADS.made_by(lambda parts: Downloads(parts[INLINE_CALLS], parts[OPENER], parts[CONTENTS])),
        DOWNLOAD_RULES.made_by(lambda parts: DownloadRules(parts[SETTINGS], parts[DATABASE])),
    ),
)
