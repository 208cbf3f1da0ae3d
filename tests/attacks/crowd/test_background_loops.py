"""One exception ended the reconcile loop permanently, while /health/ready still reported success."""

import threading
from pathlib import Path

import pytest

from holdfast.kit import supervisor
from holdfast.runner import feature as runner
from tests.support.in_process import InProcess, started
from tests.support.service import wait_until


class Unexpected(BaseException):
    """Not a subclass of Exception: it ends a loop that catches only those."""


def loop_of(running: InProcess, name: str) -> dict[str, object]:
    loops = running.client.get("/api/system/info", headers=running.login()).json()["loops"]
    return {loop["name"]: loop for loop in loops}[name]


def test_an_exception_of_an_unexpected_class_does_not_end_reconcile(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    broken, worked = threading.Event(), threading.Event()
    broken.set()

    def reconcile(*_: object) -> None:
        if broken.is_set():
            raise Unexpected("of a class that nobody thought of\nwith a second line")
        worked.set()

    monkeypatch.setattr(runner, "RECONCILE_LOOK_SECONDS", 0.01)
    monkeypatch.setattr(supervisor, "FIRST_DELAY_SECONDS", 0.01)
    monkeypatch.setattr(runner, "reconcile_if_due", reconcile)
    with started(tmp_path / "data") as running:
        ready = wait_until(
            lambda: answer if (answer := running.client.get("/health/ready")).json()["status"] == "degraded" else None,
            what="the failing loop is visible",
        )
        assert ready.json()["failing"] == ["reconcile"]
        wait_until(lambda: running.client.get("/health/ready").status_code == 503, what="a loop that keeps failing")
        told = loop_of(running, "reconcile")
        assert told["state"] == "failing"
        assert told["last_error"] == "Unexpected: of a class that nobody thought of"

        broken.clear()

        assert worked.wait(60), "the loop goes on"
        wait_until(lambda: running.client.get("/health/ready").json()["status"] == "ok", what="all is well again")
        assert loop_of(running, "reconcile")["state"] == "running"


def test_every_loop_of_the_service_is_reported_to_administrators_only(tmp_path: Path) -> None:
    with started(tmp_path / "data") as running:
        admin = running.login()
        running.client.post(
            "/api/users",
            json={"username": "vera", "password": "a good password", "role": "viewer", "must_change_password": False},
            headers=admin,
        )
        viewer = running.login("vera", "a good password")

        told = running.client.get("/api/system/info", headers=admin).json()["loops"]

        assert {"reconcile", "mirrors", "tidy", "events", "runner-claims", "runner-ticks"} <= {
            loop["name"] for loop in told
        }
        assert {loop["state"] for loop in told} == {"running"}
        assert running.client.get("/api/system/info", headers=viewer).json()["loops"] is None


def test_a_loop_that_raises_or_returns_is_restarted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(supervisor, "FIRST_DELAY_SECONDS", 0.0)
    rounds = iter([Unexpected("first"), ValueError("second"), None])
    settled = threading.Event()
    kept = supervisor.Supervisor()

    def loop() -> None:
        try:
            found = next(rounds)
        except StopIteration:
            settled.set()
            kept.stopping.wait()
            return
        if found is not None:
            raise found

    thread = kept.keep_running("restless", loop)

    assert settled.wait(60)
    report = kept.reports()[0]
    assert (report.name, report.restarts, report.state) == ("restless", 3, "failing")
    kept.record_working("restless")
    assert kept.reports()[0].state == "running"
    kept.stop()
    thread.join(60)
    assert not thread.is_alive()


def test_a_failing_step_backs_off_without_delaying_the_others() -> None:
    kept, done = supervisor.Supervisor(), []

    def fail() -> None:
        done.append("fail")
        raise OSError("no space")

    assert not kept.attempt("broken", fail)
    assert not kept.attempt("broken", fail), "not tried again before its time"
    assert kept.attempt("well", lambda: done.append("well"))
    assert done == ["fail", "well"]
    assert [report.name for report in kept.failing()] == ["broken"]
