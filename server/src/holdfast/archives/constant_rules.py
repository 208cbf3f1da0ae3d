"""Constants that define when work is overdue on repositories without a schedule."""

from collections.abc import Mapping

from sqlalchemy import column, select, table
from sqlalchemy.orm import Session

from holdfast.archives.status_view import CARE
from holdfast.repositories.models import Repository
from holdfast.repositories.overdue import OverdueAfter

DAY = 86_400.0

_mirrors = table("repository_mirrors", column("repository_id"))


class ConstantRules:
    def of_all(self, session: Session) -> Mapping[int, Mapping[str, OverdueAfter]]:
        """Return the overdue rules for each repository's cells of `/status`.

        They are the same for all repositories, without the cells that a repository does not use.
        """
        mirrored = frozenset(session.scalars(select(_mirrors.c.repository_id)))
        rows = session.connection().execute(select(Repository.id, Repository.index_mode)).all()
        return {number: _CELLS[mode != "off", number in mirrored] for number, mode in rows}


def _cells(*, index: bool, mirror: bool) -> dict[str, OverdueAfter]:
    unwanted = {"index"} if not index else set()
    unwanted |= {"mirror"} if not mirror else set()
    return {
        care.cell: OverdueAfter(care.days * DAY) for care in CARE if care.days is not None and care.cell not in unwanted
    }


_CELLS = {(index, mirror): _cells(index=index, mirror=mirror) for index in (True, False) for mirror in (True, False)}
