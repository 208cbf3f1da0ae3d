"""A dry run shows what a prune then does: for random archives and random policies, with both series of engine 1.

`PRUNE_CASES` sets how many cases are tried with each series (for 200 in total: PRUNE_CASES=100).
"""

import os
import random
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from tests.contract.maintenance.jobs import Made
from tests.support.archive_sets import OwnEngine
from tests.support.engines import ENGINES
from tests.support.running import Services

CASES = int(os.environ.get("PRUNE_CASES", "3"))
RULES = ("keep_last", "keep_minutely", "keep_hourly", "keep_daily", "keep_weekly", "keep_monthly", "keep_yearly")
SPANS = (timedelta(hours=3), timedelta(days=4), timedelta(days=60), timedelta(days=900))
WITHIN = ("1H", "2d", "3w", "5m", "1y")


@pytest.fixture(scope="module", params=sorted(ENGINES))
def repository(request: pytest.FixtureRequest, services: Services) -> Made:
    running = services.get(engine=request.param)
    made = running.new_repository(index_mode="off")
    return Made(running, made, OwnEngine.of(running))


def random_archives(chance: random.Random) -> list[tuple[str, datetime]]:
    """Up to a dozen archives; some share an hour, a day or the beginning of their names, but no two share a second."""
    now = datetime.now(UTC).replace(microsecond=0)
    span = chance.choice(SPANS)
    seconds = sorted({chance.randrange(90, round(span.total_seconds())) for _ in range(chance.randint(1, 12))})
    return [(f"{chance.choice('ab')}-{number}", now - timedelta(seconds=ago)) for number, ago in enumerate(seconds)]


def random_policy(chance: random.Random, engine: str) -> dict[str, Any]:
    rules = [*RULES, *(["keep_quarterly"] if engine == "1.4" else [])]
    policy: dict[str, Any] = {rule: chance.randint(1, 4) for rule in chance.sample(rules, chance.randint(0, 3))}
    if not policy or chance.random() < 0.2:
        policy["keep_within"] = chance.choice(WITHIN)
    return policy


@pytest.mark.parametrize("case", range(CASES))
def test_a_prune_does_what_its_dry_run_showed(repository: Made, case: int) -> None:
    chance = random.Random(f"{repository.running.engine} {case}")
    archives, policy = random_archives(chance), random_policy(chance, repository.running.engine)
    repository.engine.remove_all(repository.repository)
    repository.engine.make(repository.repository, archives, Path(repository.repository["source_paths"][0]))
    names = {name for name, _ in archives}

    answer = repository.admin.post(f"{repository.url}/prune", json={**policy, "dry_run": True})
    assert answer.status_code == 200, answer.text
    plan = answer.json()["prune_result"]
    kept, pruned = {entry["archive"] for entry in plan["keep"]}, {entry["archive"] for entry in plan["prune"]}
    assert kept | pruned == names, policy
    assert not kept & pruned
    assert repository.names() == names, "a dry run removes nothing"

    job = repository.run("prune", **policy)

    if plan["refusal"] is not None:
        assert not kept
        assert (job["status"], job["error_key"]) == ("failed", plan["refusal"]["key"])
        assert repository.names() == names
        return
    assert job["status"] == "completed", job
    assert repository.names() == kept, policy
    assert {entry["archive"] for entry in job["result"]["prune"]} == pruned
    assert {entry["archive"]: entry["rule"] for entry in job["result"]["keep"]} == {
        entry["archive"]: entry["rule"] for entry in plan["keep"]
    }
