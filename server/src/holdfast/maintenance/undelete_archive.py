"""The operation kind `undelete_archive`: undelete an archive that was deleted since the last compaction."""

from functools import partial

from sqlalchemy.orm import Session

from backup_engine.causes import ARCHIVE_MISSING
from backup_engine.detect import EngineUnsupported
from backup_engine.requests import ListArchivesRequest, UndeleteArchiveRequest
from backup_engine.results import ArchiveInfo
from backup_jobs.archives import described, read_archives
from backup_jobs.host import Step
from holdfast.kit import clock
from holdfast.maintenance.kinds import fields_of_kind
from holdfast.maintenance.schemas import UndeleteParams
from holdfast.operations.kinds import CHANGES_ARCHIVES, Kind
from holdfast.operations.outcome import Outcome, TryAgain
from holdfast.operations.status import Status
from holdfast.repositories import archive_records, store
from holdfast.repositories.location import Opener
from holdfast.repositories.models import Repository
from holdfast.repositories.series import series_of
from holdfast.repositories.work import RepositoryWork, repository_kind

GONE = ("archives.gone", "The archive can no longer be undeleted; a compaction has removed it permanently.")


def kind(opener: Opener) -> Kind:
    values = fields_of_kind("undelete_archive", UndeleteParams, "archive", effects=CHANGES_ARCHIVES)
    return repository_kind(opener, run, **values)


def run(work: RepositoryWork) -> Outcome | TryAgain:
    """Undelete the archive. Succeed if it is listed again at the end, even if another program undeleted it."""
    params = work.context.params
    assert isinstance(params, UndeleteParams)
    request = UndeleteArchiveRequest(work.engine.address(params.engine_id, params.engine_id))
    try:
        command = work.engine.undelete_archive(work.location, request)
    except EngineUnsupported as error:
        return Outcome(Status.FAILED, error.key, str(error))
    step = work.context.step("undelete", command)
    listing = work.context.step("look", work.engine.list_archives(work.location, ListArchivesRequest()), quiet=True)
    if bad := work.ended_without_success(listing):
        return bad
    found = next((one for one in read_archives(listing.stdout) if one.id == params.engine_id), None)
    return _not_back(work, step) if found is None else _back(work, found, step)


def _not_back(work: RepositoryWork, step: Step) -> Outcome | TryAgain:
    if step.outcome.reason == ARCHIVE_MISSING:
        return Outcome(Status.FAILED, *GONE, result={"return_code": step.exit.code})
    sentence = "The engine reported that it undeleted the archive, but the archive is missing."
    return work.ended_without_success(step) or Outcome(Status.FAILED, "engine.failed", sentence)


def _back(work: RepositoryWork, archive: ArchiveInfo, step: Step) -> Outcome:
    return Outcome(
        Status.COMPLETED,
        result={"archive": described(archive), "return_code": step.exit.code},
        archive_name=archive.name,
        record=partial(_remember, repository=work.repository, archive=archive),
    )


def _remember(session: Session, *, repository: Repository, archive: ArchiveInfo) -> None:
    archive_records.add_made(
        session,
        repository.id,
        engine_id=archive.id,
        name=archive.name,
        series=series_of(archive.name, repository.archive_name_template),
        start=archive.start,
        end=archive.end,
        duration_seconds=clock.seconds_between(archive.start, archive.end) if archive.end else None,
        hostname=archive.hostname,
        username=archive.username,
        comment=archive.comment or None,
    )
    store.note_evidence(session, repository.id, "archives")
