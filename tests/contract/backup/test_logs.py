"""GET /api/backup/logs/{job_id}/stream and /download"""

import pytest

from tests.contract.backup.jobs import missing_backup, status_of, stream_of
from tests.contract.fields import LOG_STREAM, error_of
from tests.support.running import Running
from tests.support.service import wait_until


def test_paging_through_a_log_returns_every_line_exactly_once(running: Running) -> None:
    whole = stream_of(running, running.warned)
    contents, offset = [], 0
    while True:
        page = stream_of(running, running.warned, offset=offset, limit=7)
        assert set(page) == LOG_STREAM
        assert len(page["lines"]) <= 7
        assert [line["line_number"] for line in page["lines"]] == [
            offset + number for number in range(1, len(page["lines"]) + 1)
        ]
        assert page["total_lines"] == offset + len(page["lines"])
        assert page["log_lines"] == whole["log_lines"]
        contents += [line["content"] for line in page["lines"]]
        offset = page["total_lines"]
        if not page["has_more"]:
            break

    assert len(contents) == whole["log_lines"] > 40
    assert contents == [line["content"] for line in whole["lines"]]
    assert all(set(line) == {"line_number", "content"} for line in whole["lines"])
    assert (whole["job_id"], whole["status"]) == (running.warned, "completed_with_warnings")
    assert whole["has_more"] is False


def test_an_offset_at_or_past_the_end_returns_no_lines_and_does_not_move(running: Running) -> None:
    lines = stream_of(running, running.warned)["log_lines"]

    at_the_end = stream_of(running, running.warned, offset=lines)
    beyond = stream_of(running, running.warned, offset=lines + 1000)

    assert (at_the_end["lines"], at_the_end["total_lines"], at_the_end["has_more"]) == ([], lines, False)
    assert (beyond["lines"], beyond["total_lines"], beyond["has_more"]) == ([], lines + 1000, False)


@pytest.mark.parametrize("params", [{"offset": -1}, {"offset": "x"}, {"limit": 0}, {"limit": 5001}, {"limit": "all"}])
def test_offset_and_limit_have_bounds(running: Running, params: dict[str, object]) -> None:
    place = f"/api/backup/logs/{running.known.job_id}/stream"

    assert running.admin.get(place, params=params).status_code == 422
    assert running.admin.get(place, params={"limit": 5000, "offset": 2**53}).status_code == 200


def test_the_log_of_a_running_backup_grows_but_cannot_be_downloaded_yet(running: Running) -> None:
    repository = running.scratch
    missing = str(running.new_path("missing"))
    sources = [missing, *repository["source_paths"]]

    with running.held_backup({**repository, "source_paths": sources}) as (job_id, _gate):
        first = wait_until(
            lambda: page if (page := stream_of(running, job_id))["lines"] else None, what="the engine's first line"
        )
        assert first["status"] == "running"
        assert any(missing in line["content"] for line in first["lines"])
        early = running.admin.get(f"/api/backup/logs/{job_id}/download")
        assert error_of(early) == (409, "logs.still_running")
        assert status_of(running, job_id)["status"] == "running"
    rest = stream_of(running, job_id, offset=first["total_lines"])
    downloaded = running.admin.get(f"/api/backup/logs/{job_id}/download")

    assert [line["content"] for line in (*first["lines"], *rest["lines"])] == downloaded.text.splitlines()
    assert rest["status"] == "completed_with_warnings"


def test_the_log_of_a_successful_backup_is_kept_and_downloads_as_text(running: Running) -> None:
    known = running.known

    answer = running.admin.get(f"/api/backup/logs/{known.job_id}/download")

    assert answer.status_code == 200
    assert answer.headers["Content-Type"] == "text/plain; charset=utf-8"
    assert answer.headers["Content-Disposition"] == f'attachment; filename="backup-{known.job_id}.log"'
    assert answer.text.splitlines() == running.admin.log_lines(known.job_id)
    assert answer.text.endswith("\n")


def test_a_job_that_never_ran_has_an_empty_log_stream_and_no_download(running: Running) -> None:
    cancelled = running.several[1]["cancelled"]

    stream = stream_of(running, cancelled)

    assert (stream["lines"], stream["total_lines"], stream["log_lines"]) == ([], 0, 0)
    assert (stream["status"], stream["has_more"]) == ("cancelled", False)
    download = running.admin.get(f"/api/backup/logs/{cancelled}/download")
    assert error_of(download) == (404, "logs.not_stored")
    assert status_of(running, cancelled)["logs"] is None


def test_the_log_of_a_failed_backup_ends_with_the_reason(running: Running) -> None:
    job_id = missing_backup(running, running.scratch)

    status = status_of(running, job_id)

    assert (status["status"], status["error_key"]) == ("failed", "engine.source_missing")
    assert status["error_message"] in status["logs"].splitlines()[-1]
