"""The parts of the service that restores contribute."""

from holdfast.api.dependencies import DATABASE
from holdfast.operations.manifest import Feature
from holdfast.repositories.location import OPENER
from holdfast.restore import restore_archive, routes
from holdfast.restore.grants import routes as grant_routes
from holdfast.restore.preview import PREVIEWS, Previews
from holdfast.restore.to_agent import routes as to_agent_routes
from holdfast.restore.to_agent.restore_streams import RESTORE_STREAMS, RestoreStreams
from holdfast.runner.inline import INLINE_CALLS

FEATURE = Feature(
    name="restore",
    routers=(routes.routes, to_agent_routes.routes, grant_routes.routes),
    provides=(
        PREVIEWS.made_by(lambda parts: Previews(parts[DATABASE], parts[INLINE_CALLS], parts[OPENER])),
        RESTORE_STREAMS.made_by(lambda parts: RestoreStreams(parts[DATABASE], parts[INLINE_CALLS], parts[OPENER])),
    ),
    kinds=lambda parts: (restore_archive.kind(parts[OPENER]),),
)
