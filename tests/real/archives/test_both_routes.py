"""Archives read by metadata chunks and by the engine's listing give the same results."""

import json
import os
import random
from pathlib import Path
from typing import Any

import pytest

from tests.contract.archives.world import make_deep_file
from tests.real.archives.service import Installed, Shelf
from tests.real.archives.test_equal_over_http import asked, exact
from tests.support.engines import ENGINE_2, ENGINES
from tests.support.service import wait_until
from tests.support.sshd import sshd


def answers(shelf: Shelf) -> dict[str, Any]:
    """Everything that the index returns for a repository, except facts about the index itself."""
    archives = shelf.archives()
    ids = [one["id"] for one in archives.values()]
    entries: dict[str, Any] = {}
    for number in ids:
        folders = [b""]
        while folders:
            folder = folders.pop()
            found = shelf.get(f"/archives/{number}/browse", **asked(folder))
            assert found["source"] == "index"
            entries[f"{number}:{folder!r}"] = found["entries"]
            folders += [exact(entry) for entry in found["entries"] if entry["type"] == "d"]
    paths = sorted({exact(entry) for listed in entries.values() for entry in listed})
    return {
        "browse": entries,
        "changes": {
            f"{one}:{other}": by_path(shelf.get(f"/archives/{one}/changes", compare_to=other, limit=5000))
            for one in ids
            for other in ids
        },
        "history": {repr(path): shelf.get("/history", **asked(path)) for path in paths},
        "search": sorted(json.dumps(hit, sort_keys=True) for hit in shelf.get("/search", q="e", limit=500)["results"]),
    }


def by_path(answer: dict[str, Any]) -> dict[str, Any]:
    """Rows come in the order in which paths were first seen, which does not matter here."""
    return {**answer, "changes": sorted(answer["changes"], key=lambda row: (row["path"], row["path_b64"] or ""))}


def force_listing(installed: Installed) -> None:
    """Make the service believe that the chunk route failed its self-test with every engine it has tested."""
    verdicts = installed.folder / "data" / "history" / "routes.json"
    known = json.loads(verdicts.read_text())
    assert known
    for verdict in known.values():
        verdict["failure"] = "told so by a test"
    verdicts.write_text(json.dumps(known))


def read_by_listing(shelf: Shelf, archives: int) -> None:
    """Rebuild the index as if chunks could not be read."""
    verdicts = shelf.installed.folder / "data" / "history" / "routes.json"
    kept = verdicts.read_text()
    force_listing(shelf.installed)
    try:
        assert shelf.run("rebuild", **{"from": "history"}) == ["completed"]
    finally:
        verdicts.write_text(kept)
    run = shelf.history_runs()[-1]
    assert run["result"]["routes"] == {"listing": archives}
    assert "told so by a test" in run["result"]["route_reason"]


def test_both_ways_of_reading_archives_give_equal_results(by_chunks: Installed) -> None:
    shelf = by_chunks.new_shelf()
    (shelf.source / os.fsdecode(b"caf\xe9")).write_text("coffee")
    (shelf.source / "two\nlines").write_text("lines")
    (shelf.source / "link").symlink_to("file-1")
    os.link(shelf.source / "file-1", shelf.source / "hard")
    (shelf.source / "file-1").chmod(0o4755)
    (shelf.source / "empty folder").mkdir()
    make_deep_file(shelf.source)
    names = [f"series-2026-02-0{day}" for day in (1, 2, 3)]
    shelf.make(names[0])
    os.chown(shelf.source / "file-2", 12, 34)
    shelf.make(names[1])
    os.utime(shelf.source / "file-2", ns=(1, 1_234_567_890_123_456_789))
    shelf.make(names[2])
    shelf.resync()
    assert shelf.history_runs()[-1]["result"]["routes"] == {"chunks": 3}
    first = answers(shelf)

    read_by_listing(shelf, archives=3)
    second = answers(shelf)

    for part, told in first.items():
        assert second[part] == told, part


def test_an_ssh_machine_that_runs_the_engine_is_read_by_chunks_with_equal_results(
    by_chunks: Installed, tmp_path: Path
) -> None:
    with sshd(tmp_path / "machine") as machine:
        connection = machine.connection(by_chunks.client, "machine", engine_path=str(ENGINES["1.4"]))
        shelf = by_chunks.new_shelf(execution_target="ssh", ssh_connection_id=connection)
        (shelf.source / os.fsdecode(b"caf\xe9")).write_text("coffee")
        os.link(shelf.source / "file-1", shelf.source / "hard")
        (shelf.source / "large").write_bytes(bytes(range(256)) * 4000)
        shelf.make("series-2026-02-01", "series-2026-02-02")
        shelf.resync()
        assert shelf.history_runs()[-1]["result"]["routes"] == {"chunks": 2}
        first = answers(shelf), contents(shelf, "bytes")

        read_by_listing(shelf, archives=2)
        second = answers(shelf), contents(shelf, "none")
        assert second[0] == first[0]
        assert second[1] == first[1]
        assert by_chunks.client.delete(shelf.url).status_code == 204


@pytest.mark.skipif(ENGINE_2 is None, reason="needs engine 2")
def test_engine_2_on_an_ssh_machine_is_indexed_and_read_by_chunks_with_equal_results(
    by_chunks: Installed, tmp_path: Path
) -> None:
    secret = {"encryption": "aes256-ocb", "passphrase": "a passphrase of the tests"}
    with sshd(tmp_path / "machine") as machine:
        connection = machine.connection(by_chunks.client, "machine with engine 2", engine_path=str(ENGINE_2))
        shelf = by_chunks.new_shelf(execution_target="ssh", ssh_connection_id=connection, engine_version=2, **secret)
        (shelf.source / os.fsdecode(b"caf\xe9")).write_text("coffee")
        (shelf.source / "link").symlink_to("file-1")
        os.link(shelf.source / "file-1", shelf.source / "hard")
        (shelf.source / "large").write_bytes(random.Random(4).randbytes(1_024_000))
        for number in range(2):
            (shelf.source / "file-0").write_text(f"of backup {number}")
            assert shelf.client.wait_for_end(shelf.client.start_backup(shelf.repository))["status"] == "completed"
        wait_until(lambda: not shelf.client.get("/api/operations/queue").json()["repositories"], what="nothing runs")
        assert shelf.run("rebuild", **{"from": "history"}) == ["completed"]
        assert shelf.history_runs()[-1]["result"]["routes"] == {"chunks": 2}
        first = answers(shelf), contents(shelf, "bytes")
        assert first[1][0] == (shelf.source / "large").read_bytes()

        read_by_listing(shelf, archives=2)
        assert (answers(shelf), contents(shelf, "none")) == first
        assert by_chunks.client.delete(shelf.url).status_code == 204


def contents(shelf: Shelf, parts: str) -> list[bytes]:
    """The contents of a file and the preview of another, of the oldest archive, by chunks or by the engine."""
    archive = next(iter(shelf.archives().values()))["id"]
    place, path = f"{shelf.url}/archives/{archive}", str(shelf.source).lstrip("/")
    answer = shelf.client.get(f"{place}/files", params={"path": f"{path}/large"}, headers={"Range": "bytes=500-1499"})
    assert answer.headers["Accept-Ranges"] == parts
    assert (answer.status_code, len(answer.content)) == ((206, 1000) if parts == "bytes" else (200, 1_024_000))
    whole = shelf.client.get(f"{place}/files", params={"path": f"{path}/large"}).content
    assert answer.content == (whole[500:1500] if parts == "bytes" else whole)
    text = shelf.client.get(f"{place}/preview", params={"path": f"{path}/file-0"})
    assert text.status_code == 200, text.text
    return [whole, json.dumps(text.json()["text"]).encode()]
