"""Starts a wipe if the preview and the confirmation are still valid."""

from sqlalchemy.orm import Session

from backup_engine.frozen import frozen
from holdfast.access.caller import Caller
from holdfast.access.roles import Role
from holdfast.errors import Conflict, Locked, Unprocessable
from holdfast.maintenance.start import refuse_observed
from holdfast.maintenance.wipe import errors, store
from holdfast.maintenance.wipe.models import WipePreview
from holdfast.maintenance.wipe.preview import Previews, fingerprint, phrase
from holdfast.maintenance.wipe.schemas import WipeParams, WipeStartBody
from holdfast.operations.kinds import Kind
from holdfast.operations.models import Operation
from holdfast.repositories import jobs, protection
from holdfast.repositories import store as repositories
from holdfast.repositories.models import Repository
from holdfast.storage.session import Database


@frozen
class WipeStart:
    database: Database
    previews: Previews

    def check_archives(self, caller: Caller, repository_id: int, wanted: WipeStartBody) -> None:
        """Compare the repository with the preview. Raise Conflict if its archives have changed.

        While other work holds the repository, the wipe is queued behind it without this check: it checks again itself
        before it removes anything.
        """
        with self.database.reading() as session:
            repository, preview = confirmed(session, caller, repository_id, wanted)
        try:
            archives = self.previews.read_archives(repository, wait_seconds=0)
        except Locked as error:
            if error.key != "repository.busy":
                raise
            return
        if fingerprint(archives) != preview.archive_fingerprint:
            raise errors.preview_stale()


def confirmed(
    session: Session, caller: Caller, repository_id: int, wanted: WipeStartBody
) -> tuple[Repository, WipePreview]:
    """The repository and the preview, if the confirmation matches and the preview can be started."""
    repository = repositories.require(session, caller, repository_id, Role.ADMIN)
    refuse_observed(repository)
    preview = store.of_repository(session, repository_id, wanted.preview_id)
    if not wanted.understood or wanted.confirmation_phrase != phrase(repository):
        raise Unprocessable(
            "wipe.confirmation_mismatch",
            "Type the confirmation phrase exactly as shown, and confirm that you understand what will be lost.",
        )
    if wanted.preview_fingerprint != preview.archive_fingerprint:
        raise errors.preview_stale()
    if preview.status != "previewed":
        raise errors.preview_used(preview.status)
    if count := protection.count(session, repository_id):
        raise Conflict(*errors.PROTECTED, protected=count)
    return repository, preview


def enqueue(session: Session, caller: Caller, kind: Kind, repository_id: int, wanted: WipeStartBody) -> Operation:
    repository, preview = confirmed(session, caller, repository_id, wanted)
    params = WipeParams(
        preview_id=preview.public_id,
        archive_fingerprint=preview.archive_fingerprint,
        run_compact=preview.run_compact if wanted.run_compact is None else wanted.run_compact,
    )
    details = {"preview_id": preview.public_id, "archives": preview.archive_count}
    operation = jobs.start(session, caller, kind, repository, params, details=details)
    if not store.leave_previewed(session, preview, "started", operation.id):
        raise errors.preview_used("started")
    return operation
