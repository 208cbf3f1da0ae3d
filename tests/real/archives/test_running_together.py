"""History runs that are killed, that give way, and that run at the same time."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.real.archives.scripted_engine import listing_of
from tests.real.archives.service import Installed, wait_for_index


@pytest.fixture
def installed(tmp_path: Path) -> Iterator[Installed]:
    """A service that a test may kill."""
    started = Installed.start(tmp_path)
    yield started
    started.process.stop(60)


def test_a_killed_run_resumes_and_logs_each_archive_once(installed: Installed) -> None:
    shelf = installed.new_shelf()
    shelf.make("one", "two", "three")
    with installed.scripted.rule(listing_of("two"), "wait") as rule:
        *_, history = shelf.start("resync")
        rule.wait_until_reached()
        installed.process.kill()
        installed.restart()
        assert shelf.states() == {"one": "indexed", "two": "pending", "three": "pending"}
        assert shelf.files_found() == {"only-in-one"}, "what was indexed stays readable"
    ended = shelf.client.wait_for_end(history)

    assert (ended["status"], ended["result"]["indexed"], ended["result"]["failed"]) == ("completed", 3, 0)
    assert set(shelf.states().values()) == {"indexed"}
    log = shelf.client.log_lines(history)
    assert [line.split(":")[0] for line in log if "read by listing" in line] == ["one", "two", "three"]
    assert log[-1] == "3 archives indexed, 0 failed."


def test_a_backup_waits_only_for_the_archive_that_is_being_read(scripted: Installed) -> None:
    shelf = scripted.new_shelf(index_mode="off")
    shelf.make("one", "two", "three", "four")
    shelf.run("resync")
    with scripted.scripted.rule(listing_of("two"), "wait") as rule:
        shelf.client.put(shelf.url, json={"index_mode": "full"})
        rule.wait_until_reached()
        backup = shelf.client.start_backup(shelf.repository)
        waiting = shelf.client.operation(backup)
        assert (waiting["status"], waiting["queued_reason"]) == ("pending", "repository_busy")
    ended = shelf.client.wait_for_end(backup)
    assert ended["status"] == "completed"
    wait_for_index(shelf.client, shelf.repository)

    first, *rest = shelf.history_runs()
    assert (first["result"]["indexed"], first["result"]["gave_way_to"]) == (2, backup)
    assert first["completed_at"] <= ended["started_at"]
    assert sum(run["result"]["indexed"] for run in rest) == 3, "the other two, and the archive of the backup itself"
    assert first["run_id"] in {run["run_id"] for run in rest}, "the rest belongs to the same run"
    assert set(shelf.states().values()) == {"indexed"}


def test_leaving_full_mode_lets_a_running_index_finish_and_cancels_pending_work(scripted: Installed) -> None:
    shelf = scripted.new_shelf()
    shelf.make("one", "two")
    with scripted.scripted.rule(listing_of("one"), "wait") as rule:
        *_, history = shelf.start("resync")
        rule.wait_until_reached()
        (waiting,) = shelf.start("rebuild", **{"from": "stats"})
        shelf.client.wait_for_end(waiting)
        shelf.client.put(shelf.url, json={"index_mode": "off"})
        assert shelf.client.operation(history)["status"] == "running"
    ended = shelf.client.wait_for_end(history)

    assert (ended["status"], ended["result"]["indexed"]) == ("completed", 2)
    assert set(shelf.states().values()) == {"indexed"}


def test_two_simultaneous_history_runs_do_no_harm_and_a_rebuild_requested_meanwhile_is_done(
    scripted: Installed,
) -> None:
    shelf = scripted.new_shelf()
    shelf.make("one", "two")
    with scripted.scripted.rule(listing_of("two"), "wait") as rule:
        *_, first = shelf.start("resync")
        rule.wait_until_reached()
        (second,) = shelf.start("rebuild", **{"from": "history"})
        beside = shelf.client.wait_for_end(second)
        assert (beside["status"], beside["result"]["reason"]) == ("completed", "another run is building this index")
    ended = shelf.client.wait_for_end(first)
    wait_for_index(shelf.client, shelf.repository)

    assert ended["status"] == "completed"
    last = shelf.history_runs()[-1]
    assert last["id"] not in (first, second)
    assert (last["status"], last["result"]["indexed"]) == ("completed", 2), "everything was read again"
    assert set(shelf.states().values()) == {"indexed"}
    assert shelf.files_found() == {"only-in-one", "only-in-two"}


def test_many_simultaneous_rebuilds_produce_one_complete_index(by_chunks: Installed) -> None:
    shelf = by_chunks.new_shelf()
    shelf.make("one", "two")
    operations = [operation for _ in range(4) for operation in shelf.start("rebuild", **{"from": "archives"})]

    ended = {(one["kind"], one["status"]) for one in shelf.ends(operations)}
    wait_for_index(shelf.client, shelf.repository)

    assert ended == {("archives", "completed"), ("stats", "completed"), ("history", "completed")}
    assert set(shelf.states().values()) == {"indexed"}
    assert shelf.files_found() == {"only-in-one", "only-in-two"}
