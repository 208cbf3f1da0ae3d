"""Archives that are deleted and can be brought back, asked of the engine inside a request."""

from dataclasses import dataclass

from backup_engine.detect import EngineUnsupported
from backup_engine.parse import GarbledOutput, parse_archives
from backup_engine.requests import ListArchivesRequest
from backup_jobs.host import SUCCEEDED
from backup_jobs.work import readable
from holdfast.errors import Unprocessable
from holdfast.maintenance.schemas import DeletedArchive, DeletedArchives
from holdfast.operations import queue
from holdfast.repositories import errors, store
from holdfast.repositories.location import Opener
from holdfast.repositories.models import Repository
from holdfast.runner.inline import InlineCalls


@dataclass(frozen=True, slots=True)
class DeletedAnswers:
    inline: InlineCalls
    opener: Opener

    def archives(self, repository: Repository) -> DeletedArchives:
        """Raise Unprocessable if the engine keeps none, Locked while the repository is busy."""
        engine, location = self.opener.engine(repository), self.opener.location(repository)
        try:
            command = engine.list_archives(location, ListArchivesRequest(deleted=True))
        except EngineUnsupported as error:
            raise Unprocessable(error.key, str(error)) from error
        with self.inline.hold(queue.lane_of(repository.id), subject=store.subject(repository)) as hold:
            step = hold.run(command)
            if step.outcome.status not in SUCCEEDED:
                raise errors.refused_by_engine(step.outcome)
            try:
                found = parse_archives(step.stdout.read_bytes())
            except (GarbledOutput, OSError) as error:
                raise Unprocessable("engine.failed", "The engine's list of archives was cut short.") from error
        return DeletedArchives(
            repository_id=repository.id,
            archives=[
                DeletedArchive(engine_id=archive.id, name=readable(archive.name), start=archive.start, end=archive.end)
                for archive in found
            ],
        )
