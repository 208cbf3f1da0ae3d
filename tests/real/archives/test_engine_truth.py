"""Incomplete output of the engine changes nothing; a failure is reported and retried."""

from pathlib import Path

import pytest

from tests.real.archives.scripted_engine import ARCHIVE_LIST, listing_of
from tests.real.archives.service import Installed, Shelf, get

WORDS = ("fail", "garble", "cut")


@pytest.fixture(scope="module")
def shelf(scripted: Installed) -> Shelf:
    """An indexed repository with two archives. Its tests disturb the engine, and leave the repository unchanged."""
    made = scripted.new_shelf()
    made.make("one", "two")
    made.resync()
    return made


@pytest.mark.parametrize("word", WORDS)
def test_a_failed_or_garbled_list_of_archives_removes_nothing(shelf: Shelf, word: str) -> None:
    before = shelf.get("/archives")
    with shelf.installed.scripted.rule(ARCHIVE_LIST, word, 60):
        first, *others = shelf.ends(shelf.start("resync"))

    assert first["status"] == "failed"
    assert first["error_key"] == "engine.failed"
    assert {one["status"] for one in others} == {"skipped"}
    assert shelf.get("/archives") == before
    assert shelf.files_found() == {"only-in-one", "only-in-two"}


def test_sizes_that_cannot_be_read_leave_the_recorded_ones_unchanged(shelf: Shelf) -> None:
    before = get(shelf.client, shelf.url)
    with shelf.installed.scripted.rule("*info --json*", "garble"):
        (ended,) = shelf.ends(shelf.start("rebuild", **{"from": "stats"}))

    assert ended["status"] == "failed"
    assert get(shelf.client, shelf.url)["total_size"] == before["total_size"]
    assert shelf.archives()["one"]["original_size"] is not None


def test_the_live_listing_of_a_failing_engine_is_an_error_instead_of_an_empty_list(shelf: Shelf) -> None:
    for word in WORDS:
        with shelf.installed.scripted.rule(ARCHIVE_LIST, word, 60):
            answer = shelf.client.get(f"{shelf.url}/archives/live")
        assert (answer.status_code, answer.json()["detail"]["key"]) == (422, "engine.failed")


@pytest.mark.parametrize(("word", "argument"), [("fail", ""), ("cut", 200)])
def test_an_unreadable_archive_is_marked_as_failed_and_retried(
    scripted: Installed, word: str, argument: object
) -> None:
    shelf = scripted.new_shelf()
    shelf.make("one", "two", "three")
    with scripted.scripted.rule(listing_of("two"), word, argument):
        *_, history = shelf.ends(shelf.start("resync"))

    assert history["status"] == "completed_with_warnings"
    assert (history["result"]["indexed"], history["result"]["failed"]) == (2, 1)
    assert shelf.states() == {"one": "indexed", "two": "failed", "three": "indexed"}
    assert shelf.files_found() == {"only-in-one", "only-in-three"}, "nothing of a half-read archive is shown"
    archives = shelf.archives()
    two = archives["two"]["id"]
    assert shelf.get(f"/archives/{two}")["history_error"]
    detail = get(shelf.client, f"/api/operations/repositories/{shelf.repository['id']}")
    assert [one["id"] for one in detail["failed_archives"]] == [two]
    assert detail["failed_archives"][0]["error"]
    changes = shelf.get(f"/archives/{archives['three']['id']}/changes", compare_to=archives["one"]["id"])
    assert (changes["incomplete"], changes["unindexed_archive_ids"]) == (False, []), "each name is a series of its own"
    assert shelf.get("/search", q="only-in-")["coverage"]["unindexed_archive_ids"] == [two]

    assert shelf.run("resync") == ["completed"] * 3
    assert set(shelf.states().values()) == {"indexed"}
    assert shelf.get(f"/archives/{two}")["history_error"] is None


def test_an_unindexed_archive_between_two_others_makes_their_changes_incomplete(scripted: Installed) -> None:
    shelf = scripted.new_shelf()
    names = [f"series-2026-01-0{day}" for day in (1, 2, 3)]
    shelf.make(*names)
    with scripted.scripted.rule(listing_of(names[1]), "fail"):
        shelf.ends(shelf.start("resync"))
    ids = {name: one["id"] for name, one in shelf.archives().items()}

    found = shelf.get(f"/archives/{ids[names[2]]}/changes")

    assert found["compare_to_id"] == ids[names[0]]
    assert (found["incomplete"], found["unindexed_archive_ids"]) == (True, [ids[names[1]]])
    history = shelf.get("/history", path=str(shelf.source / "file-1"))
    assert history["coverage"] == {"indexed": 2, "total": 3, "unindexed_archive_ids": [ids[names[1]]]}
    assert history["present"][0]["unindexed_archive_ids"] == [ids[names[1]]]


def test_an_archive_is_not_marked_as_failed_if_its_repository_cannot_be_opened(scripted: Installed) -> None:
    shelf = scripted.new_shelf()
    shelf.make("one")
    wrong_passphrase = 52
    with scripted.scripted.rule(listing_of("one"), "exit", wrong_passphrase):
        *_, history = shelf.ends(shelf.start("resync"))

    assert (history["status"], history["error_key"]) == ("failed", "engine.passphrase_wrong")
    assert shelf.states() == {"one": "pending"}


def test_a_lock_of_another_program_is_waited_for_and_does_not_mark_the_archive_as_failed(scripted: Installed) -> None:
    shelf = scripted.new_shelf()
    shelf.make("one")
    lock_timeout = 73
    with scripted.scripted.rule(listing_of("one"), "exit", lock_timeout):
        *_, history = shelf.ends(shelf.start("resync"))

    assert (history["status"], history["error_key"], history["attempt"]) == ("failed", "engine.locked", 3)
    assert shelf.states() == {"one": "pending"}
    assert shelf.run("rebuild", **{"from": "history"}) == ["completed"]
    assert shelf.states() == {"one": "indexed"}


def test_an_archive_that_was_deleted_meanwhile_is_reported_as_gone(scripted: Installed) -> None:
    shelf = scripted.new_shelf()
    shelf.make("one", "two")
    shelf.resync()
    scripted.own.run("delete", f"{shelf.repository['path']}::one")

    (history,) = shelf.ends(shelf.start("rebuild", **{"from": "history"}))

    assert history["status"] == "completed_with_warnings"
    assert shelf.states() == {"one": "failed", "two": "indexed"}
    assert "any more" in shelf.get(f"/archives/{shelf.archives()['one']['id']}")["history_error"]
    assert shelf.run("resync") == ["completed"] * 3
    assert shelf.states() == {"two": "indexed"}


def test_a_cancelled_run_leaves_unread_archives_pending(scripted: Installed) -> None:
    shelf = scripted.new_shelf()
    shelf.make("one", "two")
    with scripted.scripted.rule(listing_of("two"), "wait") as rule:
        *_, history = shelf.start("resync")
        rule.wait_until_reached()
        assert shelf.client.post(f"/api/operations/{history}/cancel").status_code == 200
        ended = shelf.client.wait_for_end(history)

    assert (ended["status"], ended["result"]["indexed"]) == ("cancelled", 1)
    assert shelf.states() == {"one": "indexed", "two": "pending"}
    assert shelf.run("resync") == ["completed"] * 3
    assert set(shelf.states().values()) == {"indexed"}


def test_failing_follow_ups_do_not_fail_the_backup(scripted: Installed) -> None:
    shelf = scripted.new_shelf()
    with scripted.scripted.rule(ARCHIVE_LIST, "fail"):
        backup = shelf.client.wait_for_end(shelf.client.start_backup(shelf.repository))
        ended = shelf.ends([one["id"] for one in backup["followups"]])

    assert backup["status"] == "completed"
    assert [one["status"] for one in ended] == ["failed", "skipped", "skipped"]
    assert shelf.client.operation(backup["id"])["status"] == "completed"
    assert len(shelf.archives()) == 1, "the backup itself has recorded its archive"


def test_the_spools_of_listings_are_not_kept(scripted: Installed, shelf: Shelf) -> None:
    shelf.run("rebuild", **{"from": "history"})
    left = [path for path in (scripted.folder / "data" / "spool").rglob("out") if _is_listing(path)]

    assert left == []


def _is_listing(path: Path) -> bool:
    return path.parent.name.startswith("list-")
