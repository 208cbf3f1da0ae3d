"""The parts of the service that maintenance contributes."""

from dataclasses import replace

from fastapi import FastAPI

from holdfast.maintenance import check, compact, delete_archive, prune, restore_check, start, undelete_archive
from holdfast.maintenance.deleted_archives import DeletedAnswers
from holdfast.maintenance.dry_run import DryRuns
from holdfast.maintenance.routes import archive_routes, repository_routes
from holdfast.maintenance.wipe import erase
from holdfast.maintenance.wipe.preview import Previews
from holdfast.maintenance.wipe.routes import routes as wipe_routes
from holdfast.operations.kinds import Kind
from holdfast.repositories.location import Opener
from holdfast.runner.inline import InlineCalls
from holdfast.storage.session import Database

ROUTERS = (repository_routes, archive_routes, wipe_routes)


def kinds(opener: Opener) -> tuple[Kind, ...]:
    modules = (check, prune, compact, restore_check, delete_archive, undelete_archive)
    return (*(replace(module.kind(opener), again=start.again) for module in modules), erase.kind(opener))


def install(app: FastAPI, database: Database, inline: InlineCalls, opener: Opener) -> None:
    app.state.opener = opener
    app.state.dry_runs = DryRuns(inline, opener)
    app.state.deleted_archives = DeletedAnswers(inline, opener)
    app.state.wipe_previews = Previews(database, inline, opener)
