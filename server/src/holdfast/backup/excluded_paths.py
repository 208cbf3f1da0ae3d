"""What a backup leaves out because it is the service's own data."""

from collections.abc import Sequence
from typing import Any

from backup_jobs.sources import Exclusions
from backup_jobs.work import readable
from holdfast.operations.context import Context
from holdfast.repositories.location import Opener, runs_on
from holdfast.repositories.models import Repository

OWN_DATA_EXCLUDED = "excluded: it contains the service's own data, and no admin has confirmed this source"


def exclusions(opener: Opener, context: Context, repository: Repository, sources: tuple[str, ...]) -> Exclusions:
    """Determined once per attempt: after a restart, the attempt continues with what the engine was given."""
    if repository.execution_target == "agent":
        return Exclusions()
    machine_id = runs_on(repository)

    def look() -> dict[str, Any]:
        if machine_id is not None:
            known = opener.own_places.identities()
            return {"patterns": opener.machines.own_place_exclusions(machine_id, sources, known), "sources": ()}
        with context.database.reading() as session:
            places = opener.own_places.here(session)
        admitted = [source for source in repository.own_sources if source in sources]
        kept_back = [source for source in sources if source not in admitted and places.holds(source)]
        return {"patterns": places.exclusions(sources, admitted), "sources": kept_back}

    found = context.once("left-out", look)
    return Exclusions(
        tuple(found["patterns"]), tuple(found["sources"]), _lines(found["patterns"]), _warnings(found["sources"])
    )


def _lines(patterns: Sequence[str]) -> tuple[str, ...]:
    names = [pattern[len("pp:") :] for pattern in patterns if not pattern.startswith("re:")]
    return tuple(f"Excluded because it contains the service's own data: {readable(name)}" for name in names)


def _warnings(sources: Sequence[str]) -> tuple[dict[str, Any], ...]:
    return tuple(
        {"path": readable(source), "message": f"{readable(source)}: {OWN_DATA_EXCLUDED}"} for source in sources
    )
