"""Shared by the maintenance kinds: each needs the repository exclusively."""

from typing import Any

from pydantic import BaseModel

from holdfast.operations.job_work import JobWork
from holdfast.operations.kinds import Effect, Kind, from_result
from holdfast.operations.locks import Access
from holdfast.repositories.job_kinds import job_kind
from holdfast.repositories.location import Opener


def fields_of_kind(
    name: str, params: type[BaseModel], *shown: str, effects: frozenset[Effect] = frozenset()
) -> dict[str, Any]:
    """Fields of a `Kind`. `shown` names the result fields that its status shows."""
    return {
        "name": name,
        "category": "maintenance",
        "access": Access.CHANGE,
        "params": params,
        "effects": effects,
        "present": from_result(*shown),
    }


def maintenance_job(
    opener: Opener,
    job: JobWork,
    name: str,
    params: type[BaseModel],
    *shown: str,
    effects: frozenset[Effect] = frozenset(),
) -> Kind:
    """A job that can run on the service's machine and on agents."""
    return job_kind(opener, job, **fields_of_kind(name, params, *shown, effects=effects))
