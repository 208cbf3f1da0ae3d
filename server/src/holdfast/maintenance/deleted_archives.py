"""Lists deleted archives that can be restored to the repository, read from the engine during a request."""

from backup_engine.frozen import frozen
from backup_engine.requests import ListArchivesRequest
from backup_jobs.work import readable
from holdfast.api.parts import Part
from holdfast.maintenance.schemas import DeletedArchive, DeletedArchives
from holdfast.repositories.engine_queries import archives_of, query_engine
from holdfast.repositories.location import Opener
from holdfast.repositories.models import Repository
from holdfast.runner.inline import InlineCalls


@frozen
class DeletedAnswers:
    inline: InlineCalls
    opener: Opener

    def archives(self, repository: Repository) -> DeletedArchives:
        """List them. Raise Unprocessable if the engine keeps none, Locked while the repository is busy."""
        found = query_engine(
            self.inline,
            self.opener,
            repository,
            lambda engine, location: engine.list_archives(location, ListArchivesRequest(deleted=True)),
            archives_of,
        )
        return DeletedArchives(
            repository_id=repository.id,
            archives=[
                DeletedArchive(engine_id=archive.id, name=readable(archive.name), start=archive.start, end=archive.end)
                for archive in found
            ],
        )


DELETED_ANSWERS = Part[DeletedAnswers]("deleted_answers")
