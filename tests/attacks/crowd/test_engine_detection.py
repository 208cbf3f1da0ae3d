"""The first request for the service's information ran each engine program for its version, which took seconds; an
unusable program was run again by every request.
"""

from pathlib import Path

from tests.support.in_process import started
from tests.support.service import wait_until


def program(folder: Path, answer: str) -> tuple[str, Path]:
    """A program that reports a version, and a file with a line for each time it was run."""
    runs, file = folder / "runs", folder / "engine"
    file.write_text(f"#!/bin/sh\necho run >> {runs}\necho '{answer}'\n")
    file.chmod(0o755)
    return str(file), runs


def times(runs: Path) -> int:
    return len(runs.read_text().splitlines()) if runs.exists() else 0


def test_engines_are_detected_at_startup_and_not_by_requests(tmp_path: Path) -> None:
    engine, runs = program(tmp_path, "borg 1.4.5")
    with started(tmp_path / "data", borg1=engine, borg2="/no/such/program") as running:
        wait_until(lambda: times(runs) == 1, what="the engine is detected without a request")
        answer = running.client.get("/api/system/info", headers=running.login()).json()
    assert [one["version"] for one in answer["engines"]] == ["1.4.5"]
    assert times(runs) == 1


def test_a_program_that_is_not_an_engine_is_not_run_again_by_each_request(tmp_path: Path) -> None:
    engine, runs = program(tmp_path, "something else")
    with started(tmp_path / "data", borg1=engine, borg2="/no/such/program") as running:
        admin = running.login()
        for _ in range(5):
            assert running.client.get("/api/system/info", headers=admin).json()["engines"] == []
    assert times(runs) == 1
