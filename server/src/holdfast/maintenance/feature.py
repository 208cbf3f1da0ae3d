"""The maintenance feature: the parts it adds to the service."""

from dataclasses import replace

from holdfast.api.dependencies import DATABASE
from holdfast.api.parts import Parts
from holdfast.maintenance import check, compact, delete_archive, prune, restore_check, start, undelete_archive
from holdfast.maintenance.by_chunks import ARCHIVE_READERS
from holdfast.maintenance.deleted_archives import DELETED_ANSWERS, DeletedAnswers
from holdfast.maintenance.dry_run import DRY_RUNS, DryRuns
from holdfast.maintenance.routes import archive_routes, repository_routes
from holdfast.maintenance.wipe import wipe_job
from holdfast.maintenance.wipe.preview import PREVIEWS, Previews
from holdfast.maintenance.wipe.routes import routes as wipe_routes
from holdfast.operations.kinds import Kind
from holdfast.operations.manifest import Feature
from holdfast.repositories.location import OPENER
from holdfast.runner.inline import INLINE_CALLS


def _kinds(parts: Parts) -> tuple[Kind, ...]:
    opener = parts[OPENER]
    modules = (check, prune, compact, delete_archive, undelete_archive)
    kinds = [*(module.kind(opener) for module in modules), restore_check.kind(opener, parts[ARCHIVE_READERS])]
    return (*(replace(kind, retry=start.retry) for kind in kinds), wipe_job.kind(opener))


FEATURE = Feature(
    name="maintenance",
    routers=(repository_routes, archive_routes, wipe_routes),
    provides=(
        DRY_RUNS.made_by(lambda parts: DryRuns(parts[INLINE_CALLS], parts[OPENER])),
        DELETED_ANSWERS.made_by(lambda parts: DeletedAnswers(parts[INLINE_CALLS], parts[OPENER])),
        PREVIEWS.made_by(lambda parts: Previews(parts[DATABASE], parts[INLINE_CALLS], parts[OPENER])),
    ),
    kinds=_kinds,
)
