"""Reporting: everything once and in order, even if responses are lost."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from backup_agent import job_reporter
from backup_agent.client import Client
from backup_agent.job_folder import Ending, JobFolder
from backup_agent.job_reporter import REFUSED_LINE, JobReporter
from backup_agent.runtime_api import RuntimeApi
from backup_protocol import Complete, Job, Progress, Result
from tests.unit.agent.in_test_service import Answer, InTestService, Request, in_test_service


class Recorder:
    """Stores what it receives as the real service does; can lose responses and refuse requests."""

    def __init__(self) -> None:
        self.lines: dict[int, str] = {}
        self.words: list[str] = []
        self.parts: list[Any] = []
        self.lose: set[int] = set()
        self.refuse_line: str | None = None
        self.most_lines = 1_000_000
        self.lost_from_lines: int | None = None
        self.status = "running"
        self.answer: Answer | None = None
        self._count = 0

    def __call__(self, request: Request) -> Answer:
        self._count += 1
        if self.answer is not None:
            return self.answer
        word = request.path.rpartition("/")[2]
        if word == "logs":
            return self._logs(request)
        if word == "parts":
            self.parts += request.body["items"]
        if word not in self.words:
            self.words.append(word)
        return Answer(body={"id": 7, "status": self.status}, hang_up=self._count in self.lose)

    def _logs(self, request: Request) -> Answer:
        entries = request.body["entries"]
        if len(entries) > self.most_lines:
            return Answer(413, {"detail": {"key": "x", "message": "too large", "params": {}}})
        if self.lost_from_lines is not None and len(entries) >= self.lost_from_lines:
            return Answer(hang_up=True)
        if any(entry["message"] == self.refuse_line for entry in entries):
            return Answer(422, {"detail": [{"msg": "no"}]})
        accepted = 0
        for entry in entries:
            accepted += entry["sequence"] not in self.lines
            self.lines.setdefault(entry["sequence"], entry["message"])
        body = {"accepted": accepted, "duplicate": len(entries) - accepted}
        return Answer(body=body, hang_up=self._count in self.lose)


@pytest.fixture
def recorder() -> Recorder:
    return Recorder()


@pytest.fixture
def service(recorder: Recorder) -> Iterator[InTestService]:
    with in_test_service(recorder) as running:
        yield running


@pytest.fixture
def reporter(service: InTestService) -> JobReporter:
    return JobReporter(RuntimeApi(Client(service.url)))


@pytest.fixture
def job(tmp_path: Path) -> JobFolder:
    made = JobFolder.make(tmp_path, Job(7, "backup", "2026-11-15T00:00:00+00:00", {}))
    made.note_claimed()
    return made


def ended(job: JobFolder) -> None:
    job.end(Complete("2026-11-15T00:00:00+00:00", Result(0, "archive")))


def turns(reporter: JobReporter, number: int) -> None:
    for _ in range(number):
        reporter._not_before = 0.0
        reporter.turn()


def test_the_start_is_reported_before_the_lines_and_the_end_after_them(
    reporter: JobReporter, job: JobFolder, recorder: Recorder, service: InTestService
) -> None:
    done: list[Ending | None] = []
    reporter.on_done = lambda _job, ending: done.append(ending)
    job.note_start()
    job.log.write([f"line {number}" for number in range(1, 2501)])
    job.note_progress(Progress(nfiles=1))
    ended(job)
    reporter.add(job)

    reporter.turn()

    words = [path.rpartition("/")[2] for path in service.paths()]
    assert words == ["start", "logs", "logs", "logs", "complete"]
    assert recorder.lines == {number: f"line {number}" for number in range(1, 2501)}
    assert not job.folder.exists()
    assert isinstance(done[0], Complete)
    assert not reporter.is_busy


def test_lost_responses_neither_duplicate_nor_lose_anything(
    reporter: JobReporter, job: JobFolder, recorder: Recorder
) -> None:
    job.note_start()
    job.log.write([f"line {number}" for number in range(1, 1501)])
    ended(job)
    reporter.add(job)
    recorder.lose = set(range(1, 13))

    turns(reporter, 15)

    assert recorder.lines == {number: f"line {number}" for number in range(1, 1501)}
    assert recorder.words == ["start", "complete"]
    assert not job.folder.exists()


def test_nothing_is_lost_while_the_service_is_down_or_refuses_the_agent(
    reporter: JobReporter, job: JobFolder, recorder: Recorder
) -> None:
    job.log.write(["a line"])
    ended(job)
    reporter.add(job)
    for answer in (Answer(503), Answer(403, {"detail": {"key": "agents.revoked", "message": "Revoked."}})):
        recorder.answer = answer
        turns(reporter, 2)
        assert job.folder.exists()

    recorder.answer = None
    turns(reporter, 1)

    assert (recorder.lines, recorder.words) == ({1: "a line"}, ["complete"])


def test_a_restarted_agent_resumes_reporting_where_it_stopped(
    reporter: JobReporter, job: JobFolder, recorder: Recorder, tmp_path: Path
) -> None:
    job.note_start()
    job.log.write(["one", "two"])
    reporter.add(job)
    reporter.turn()
    reporter.remove(job)

    [found] = JobFolder.all_below(tmp_path)
    found.log.write(["one", "two", "three"])
    ended(found)
    reporter.add(found)
    reporter.turn()

    assert list(recorder.lines.values()) == ["one", "two", "three"]


def test_a_line_refused_by_the_service_does_not_hold_up_the_others(
    reporter: JobReporter, job: JobFolder, recorder: Recorder
) -> None:
    job.log.write(["one", "poison", "three"])
    ended(job)
    reporter.add(job)
    recorder.refuse_line = "poison"

    reporter.turn()

    assert recorder.lines == {1: "one", 2: REFUSED_LINE, 3: "three"}
    assert recorder.words == ["complete"]


@pytest.mark.parametrize("status", ["cancel_requested", "failed", "canceled"])
def test_the_service_can_stop_a_job_through_its_response(
    reporter: JobReporter, job: JobFolder, recorder: Recorder, status: str
) -> None:
    job.note_start()
    reporter.add(job)
    recorder.status = status

    reporter.turn()

    assert job.cancelled.is_set()


def test_the_reporter_checks_whether_a_silent_job_is_still_wanted(
    reporter: JobReporter, job: JobFolder, service: InTestService
) -> None:
    reporter.add(job)

    reporter.turn()

    assert service.paths() == ["/api/agents/jobs/7"]


def test_a_job_unknown_to_the_service_is_stopped_and_then_dropped(
    reporter: JobReporter, job: JobFolder, recorder: Recorder
) -> None:
    job.note_start()
    reporter.add(job)
    recorder.answer = Answer(404, {"detail": {"key": "agents.unknown_job", "message": "No such job."}})
    reporter.turn()
    assert job.cancelled.is_set()
    assert job.folder.exists()

    ended(job)
    reporter.turn()

    assert not job.folder.exists()


def test_parts_are_sent_before_the_end(reporter: JobReporter, job: JobFolder, recorder: Recorder) -> None:
    job.end(Complete("2026-11-15T00:00:00+00:00"), [{"name": str(number)} for number in range(700)])
    reporter.add(job)
    recorder.lose = {1, 2}

    turns(reporter, 4)

    assert {item["name"] for item in recorder.parts} == {str(number) for number in range(700)}
    assert recorder.words[-1] == "complete"


def test_lines_are_sent_in_smaller_batches_when_large_bodies_are_refused(
    reporter: JobReporter, job: JobFolder, recorder: Recorder
) -> None:
    job.log.write([f"line {number} {'x' * 2000}" for number in range(1, 301)])
    ended(job)
    reporter.add(job)
    recorder.most_lines = 20

    turns(reporter, 10)

    assert sorted(recorder.lines) == list(range(1, 301))
    assert REFUSED_LINE not in recorder.lines.values()
    assert reporter.trouble == "too large"
    assert not job.folder.exists()


def test_lines_are_sent_in_smaller_batches_when_large_bodies_do_not_get_through(
    reporter: JobReporter, job: JobFolder, recorder: Recorder
) -> None:
    """Over a slow link, the same batch was sent again and again."""
    job.log.write([f"line {number} {'x' * 2000}" for number in range(1, 301)])
    ended(job)
    reporter.add(job)
    recorder.lost_from_lines = 20

    turns(reporter, 10)

    assert sorted(recorder.lines) == list(range(1, 301))
    assert not job.folder.exists()


def test_lines_are_sent_in_smaller_batches_when_large_ones_take_too_long(
    reporter: JobReporter, job: JobFolder, service: InTestService, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(job_reporter, "SLOW_SECONDS", 0.0)
    job.log.write([f"line {number} {'x' * 2000}" for number in range(1, 1001)])
    reporter.add(job)

    turns(reporter, 20)

    sizes = [len(request.body["entries"]) for request in service.requests if request.path.endswith("logs")]
    assert sum(sizes) == 1000
    assert sizes[0] > 300
    assert sizes[-2] == min(sizes[:-1]) > 10, "every link carries batches of this size"


def test_an_unreachable_service_makes_no_batch_smaller(reporter: JobReporter, job: JobFolder) -> None:
    reporter._api = RuntimeApi(Client("http://localhost:1"))
    job.log.write(["one"])
    reporter.add(job)

    turns(reporter, 3)

    assert reporter._batch_bytes == job_reporter.BATCH_BYTES
