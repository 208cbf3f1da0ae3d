"""Compactions over HTTP."""

import pytest

from tests.contract.fields import is_timestamp
from tests.contract.maintenance.jobs import STATUS, Made


def test_a_compaction_reports_the_bytes_it_freed(archived: Made) -> None:
    archived.engine.run("delete", f"{archived.repository['path']}::second")

    job = archived.run("compact", threshold=0)

    assert set(job) >= STATUS
    assert job["status"] == "completed"
    assert job["result"]["freed_bytes"] > 0
    assert job["result"]["threshold"] == 0
    assert is_timestamp(archived.read()["last_compact"])
    assert archived.admin.operation(job["id"])["detail"] == {"freed_bytes": job["result"]["freed_bytes"]}
    assert [entry["id"] for entry in archived.admin.get(f"{archived.url}/compact-jobs").json()["jobs"]] == [job["id"]]


@pytest.mark.parametrize("threshold", [-1, 101, "half"])
def test_a_threshold_that_is_not_a_percentage_is_refused_with_422(threshold: object, unchanged: Made) -> None:
    assert unchanged.admin.post(f"{unchanged.url}/compact", json={"threshold": threshold}).status_code == 422
