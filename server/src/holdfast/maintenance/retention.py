"""The policy of a prune: the requested values, completed by the repository's retention."""

from collections.abc import Mapping
from typing import Any

from pydantic import Field

from backup_engine.features import REFUSED_IN_NAMES
from backup_engine.requests import RetentionPolicy
from holdfast.repositories.archive_names import MICROSECONDS, MILLISECONDS, Series, series_of_template
from holdfast.repositories.models import Repository
from holdfast.repositories.policies import policy_of
from holdfast.repositories.schemas import Retention

ENGINE_2 = 2


def merged(asked: Mapping[str, Any], repository: Mapping[str, Any]) -> dict[str, Any]:
    """Merge the two. A requested value wins, even 0, which switches a rule of the repository off."""
    given = {name: value for name, value in asked.items() if value is not None}
    return {**{name: value for name, value in repository.items() if name in Retention.model_fields}, **given}


class PruneParams(Retention):
    """With `complete`, the policy is exactly the given one; otherwise the repository's retention completes it."""

    complete: bool = Field(default=False)
    series: str | None = Field(default=None)
    """The archive name template of the only series to prune; None: all archives."""

    def policy(self, repository: Mapping[str, Any]) -> RetentionPolicy:
        asked = self.model_dump(include=set(Retention.model_fields), exclude_none=True)
        return policy_of(asked if self.complete else merged(asked, repository))

    def series_in(self, repository: Repository) -> Series | None:
        """The series of archives to prune, unless all are pruned."""
        if self.series is None:
            return None
        refused = REFUSED_IN_NAMES if repository.engine_version == ENGINE_2 else ""
        fraction = MICROSECONDS if repository.execution_target == "agent" else MILLISECONDS
        return series_of_template(self.series, repository.name, refused, fraction)


def policy_values(policy: RetentionPolicy) -> dict[str, Any]:
    return {name: value for name in Retention.model_fields if (value := getattr(policy, name))}
