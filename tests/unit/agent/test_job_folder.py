"""What the agent stores about a job."""

import json
from pathlib import Path

from backup_agent.job_folder import JobFolder
from backup_protocol import Complete, Fail, Job, Progress, Result

SECRET = "the passphrase of the job"
JOB = Job(
    id=7,
    type="backup",
    created_at="2026-11-15T00:00:00+00:00",
    payload={"schema_version": 1, "job_kind": "backup.create", "secrets": {"repository-1": {"value": SECRET}}},
)


def all_content(folder: Path) -> str:
    return "".join(file.read_text() for file in folder.rglob("*") if file.is_file())


def test_a_job_survives_the_agent_but_its_secrets_do_not(tmp_path: Path) -> None:
    made = JobFolder.make(tmp_path, JOB)
    assert made.secrets == {"repository-1": {"value": SECRET}}

    [found] = JobFolder.all_below(tmp_path)

    assert found.secrets is None
    assert found.job.payload["job_kind"] == "backup.create"
    assert SECRET not in all_content(tmp_path)
    assert not found.is_claimed


def test_the_state_of_a_job_is_remembered(tmp_path: Path) -> None:
    job = JobFolder.make(tmp_path, JOB)
    job.note_claimed()
    job.note_start()
    started = job.start
    job.note_start()
    job.cancel("asked")
    job.note_sent(start=True, log=12)

    [found] = JobFolder.all_below(tmp_path)
    assert found.is_claimed
    assert found.start == started
    assert found.cancelled.is_set()
    assert (found.sent.start, found.sent.log) == (True, 12)


def test_cancelling_a_finished_job_is_harmless(tmp_path: Path) -> None:
    job = JobFolder.make(tmp_path, JOB)
    job.remove()

    job.cancel("the service has ended the job")

    assert job.cancelled.is_set()
    assert list(tmp_path.iterdir()) == []


def test_a_cancel_that_cannot_be_stored_still_counts_and_is_stored_when_repeated(tmp_path: Path) -> None:
    job = JobFolder.make(tmp_path, JOB)
    (job.folder / "cancel.json.part").mkdir()  # nothing can be written under that name

    job.cancel("asked")
    counted = job.cancelled.is_set()
    (job.folder / "cancel.json.part").rmdir()
    job.cancel("asked again")

    assert counted
    [found] = JobFolder.all_below(tmp_path)
    assert found.cancelled.is_set()


def test_the_first_ending_is_kept(tmp_path: Path) -> None:
    job = JobFolder.make(tmp_path, JOB)
    job.end(Complete("2026-11-15T00:00:00+00:00", Result(0, "archive")))

    job.end(Fail("2026-11-15T00:00:01+00:00", "too late"))

    [found] = JobFolder.all_below(tmp_path)
    assert found.ending() == (Complete("2026-11-15T00:00:00+00:00", Result(0, "archive")), 0)


def test_a_long_list_is_split_into_parts_and_an_empty_one_is_one_part(tmp_path: Path) -> None:
    job = JobFolder.make(tmp_path, JOB)
    job.end(Complete("2026-11-15T00:00:00+00:00"), [{"name": str(number)} for number in range(1201)])
    other = JobFolder.make(tmp_path, Job(8, "archives", "2026-11-15T00:00:00+00:00", {}))
    other.end(Complete("2026-11-15T00:00:00+00:00"), [])

    ending = job.ending()
    assert ending is not None
    assert ending[1] == 3
    assert isinstance(ending[0], Complete)
    assert ending[0].result.parts == 3
    items = [item for number in range(3) for item in job.part(number).items]
    assert [item["name"] for item in items] == [str(number) for number in range(1201)]
    assert other.part(0).items == ()


def test_only_the_newest_progress_is_kept_and_it_is_stored_before_it_is_sent(tmp_path: Path) -> None:
    job = JobFolder.make(tmp_path, JOB)
    job.note_progress(Progress(nfiles=1))
    job.note_progress(Progress(nfiles=2))

    assert job.unsent_progress() == (2, Progress(nfiles=2))
    assert json.loads((job.folder / "progress.json").read_bytes()) == {"sequence": 2, "nfiles": 2}
    job.note_sent(progress=2)
    assert job.unsent_progress() is None


def test_a_removed_job_leaves_no_files(tmp_path: Path) -> None:
    job = JobFolder.make(tmp_path, JOB)
    job.log.write(["a line"])

    job.remove()

    assert JobFolder.all_below(tmp_path) == []
    assert list(tmp_path.iterdir()) == []


def test_folders_of_interrupted_creations_and_removals_are_swept(tmp_path: Path) -> None:
    (tmp_path / "9").mkdir()
    (tmp_path / "10").mkdir()
    (tmp_path / "10" / "job.json.part").write_text("{")

    assert JobFolder.all_below(tmp_path) == []
    assert list(tmp_path.iterdir()) == []
