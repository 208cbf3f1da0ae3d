"""Which policy a prune follows."""

import pytest

from backup_engine.requests import RetentionPolicy
from holdfast.errors import Unprocessable
from holdfast.maintenance.retention import PruneParams, merged, policy_of


def test_requested_rules_override_those_of_the_repository() -> None:
    assert merged({"keep_daily": 3, "keep_last": None}, {"keep_daily": 7, "keep_weekly": 4}) == {
        "keep_daily": 3,
        "keep_weekly": 4,
    }


def test_a_zero_turns_off_a_rule_of_the_repository() -> None:
    policy = policy_of(merged({"keep_daily": 0}, {"keep_daily": 7, "keep_weekly": 4}))

    assert policy == RetentionPolicy(keep_daily=0, keep_weekly=4)


@pytest.mark.parametrize("values", [{}, {"keep_daily": 0}, {"keep_last": 0, "keep_within": None}])
def test_a_policy_without_a_rule_is_refused(values: dict[str, int | None]) -> None:
    with pytest.raises(Unprocessable) as refusal:
        policy_of(values)

    assert refusal.value.key == "prune.empty_policy"


def test_a_complete_policy_does_not_take_rules_from_the_repository() -> None:
    asked = PruneParams(keep_last=2, complete=True)

    assert asked.policy({"keep_daily": 7}) == RetentionPolicy(keep_last=2)
    assert PruneParams(keep_last=2).policy({"keep_daily": 7}) == RetentionPolicy(keep_last=2, keep_daily=7)
