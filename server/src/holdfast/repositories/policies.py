"""Retention policies that keep something."""

from collections.abc import Mapping
from typing import Any

from backup_engine.requests import RetentionPolicy
from holdfast.errors import Unprocessable


def policy_of(values: Mapping[str, Any]) -> RetentionPolicy:
    """Return the policy. Raise Unprocessable if it has no rule: it would remove everything."""
    policy = RetentionPolicy(**values)
    if policy.keeps_nothing:
        raise Unprocessable(
            "prune.empty_policy",
            "The policy keeps nothing; set at least one keep value, or the repository's retention.",
        )
    return policy
