"""Browse, history, changes and search return over HTTP what `borg list` and `borg diff` report, archive by archive.

Random trees, and random sequences of backups, changes, prunes, deletions, renames and backdated archives, which are
therefore indexed out of order. `HOLDFAST_INDEX_SEEDS` sets the number of sequences.
"""

import ast
import base64
import os
import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from holdfast.history.entry import printable
from tests.real.archives.service import Installed, Shelf, get, run_index, wait_for_index
from tests.real.history.engine import RealRepository, mutate, plant
from tests.support.engines import ENGINES

SEEDS = range(int(os.environ.get("HOLDFAST_INDEX_SEEDS", "1")))
STEPS = int(os.environ.get("HOLDFAST_INDEX_STEPS", "8"))
PASSPHRASE = "not a secret"
FORMAT = "{bpath!a}{TAB}{type}{TAB}{mode}{TAB}{size}{TAB}{isomtime}{TAB}{user}{TAB}{group}{NUL}"

File = dict[str, Any]
Files = dict[bytes, File]


@dataclass
class Told:
    """A repository whose history is invented on the fly."""

    shelf: Shelf
    engine: RealRepository
    rng: random.Random
    days: int = 0

    # --- events ----------------------------------------------------------------------------------------------------

    def back_up(self) -> None:
        mutate(self.engine.tree, self.rng)
        name = self.rng.choice(["docs-{now}", "web-{now}"])
        job = self.shelf.client.start_backup(self.shelf.repository, archive_name=name)
        assert self.shelf.client.wait_for_end(job)["status"] == "completed"
        wait_for_index(self.shelf.client, self.shelf.repository)

    def back_up_dated_back(self) -> None:
        """Create an archive that is older than those already indexed."""
        mutate(self.engine.tree, self.rng)
        self.days += 1
        time = datetime(2026, 1, 1, tzinfo=UTC) + timedelta(days=self.rng.randrange(300), seconds=self.days)
        name = f"{self.rng.choice(['docs', 'web'])}-{time:%Y-%m-%dT%H:%M:%S}"
        options = ("--timestamp", f"{time:%Y-%m-%dT%H:%M:%S}")
        self.engine.run("create", *options, f"{self.engine.location}::{name}", str(self.engine.tree))
        self.resync()

    def delete(self) -> None:
        archives = list(self.archives())
        if len(archives) < 3:
            return self.back_up()
        chosen = self.rng.choice(archives)
        if self.rng.random() < 0.5:
            self.engine.run("delete", f"{self.engine.location}::{chosen['name']}")
            return self.resync()
        answer = self.shelf.client.delete(f"/api/archives/{chosen['id']}")
        assert answer.status_code == 200, answer.text
        assert self.shelf.client.wait_for_end(answer.json()["job_id"])["status"] == "completed"
        wait_for_index(self.shelf.client, self.shelf.repository)
        return None

    def rename(self) -> None:
        chosen = self.rng.choice(self.archives())
        series = "web" if chosen["series"] == "docs" else "docs"
        self.days += 1
        new = f"{series}-2025-01-01T00:00:{self.days:02d}"
        self.engine.run("rename", f"{self.engine.location}::{chosen['name']}", new)
        self.resync()

    def prune(self) -> None:
        answer = self.shelf.client.post(f"{self.shelf.url}/prune", json={"keep_last": 4})
        assert answer.status_code == 200, answer.text
        assert self.shelf.client.wait_for_end(answer.json()["job_id"])["status"] == "completed"
        wait_for_index(self.shelf.client, self.shelf.repository)

    def catch_up(self) -> None:
        """Create several archives while no history is kept; then index all of them in one run."""
        self.set_mode("archives")
        self.back_up()
        self.back_up_dated_back()
        self.set_mode("full")
        wait_for_index(self.shelf.client, self.shelf.repository)

    def resync(self) -> None:
        run_index(self.shelf.client, self.shelf.repository)

    def set_mode(self, mode: str) -> None:
        assert self.shelf.client.put(self.shelf.url, json={"index_mode": mode}).status_code == 200

    def archives(self) -> list[dict[str, Any]]:
        """Oldest first."""
        found: list[dict[str, Any]] = list(reversed(self.shelf.get("/archives", limit=1000)["archives"]))
        return found

    # --- what the engine reports -------------------------------------------------------------------------------------

    def listed_by_engine(self, name: str) -> Files:
        output = self.engine.run("list", "--format", FORMAT, f"{self.engine.location}::{name}")
        found: Files = {}
        for record in output.decode().split("\0")[:-1]:
            literal, kind, mode, size, time, user, group = record.split("\t")
            path = ast.literal_eval(literal).encode("utf-8", "surrogateescape")
            found[path] = {
                "type": kind,
                "mode": kind.replace("h", "-") + mode[1:],
                "size": None if kind in "dl" else int(size),
                "mtime": datetime.fromisoformat(time).replace(tzinfo=UTC).isoformat(timespec="microseconds"),
                "user": user,
                "group": group,
            }
        return found


def exact(told: dict[str, Any], name: str = "path") -> bytes:
    """The bytes of a path in a response."""
    return base64.b64decode(told[f"{name}_b64"]) if told[f"{name}_b64"] else str(told[name]).encode()


def asked(path: bytes) -> dict[str, str]:
    return {"path_b64": base64.b64encode(path).decode()}


def pages(shelf: Shelf, path: str, field: str, limit: int, **query: Any) -> Iterator[dict[str, Any]]:
    cursor: dict[str, str] = {}
    while True:
        page = shelf.get(path, limit=limit, **query, **cursor)
        yield from page[field]
        if page["next_cursor"] is None:
            return
        cursor = {"cursor": page["next_cursor"]}


def browsed(shelf: Shelf, archive: int, rng: random.Random) -> Files:
    """Everything reachable from the root of an archive, except parents that the archive itself does not list."""
    found: Files = {}
    folders = [b""]
    while folders:
        query = asked(folders.pop())
        for entry in pages(shelf, f"/archives/{archive}/browse", "entries", rng.choice([3, 50]), **query):
            path = exact(entry)
            assert path.rsplit(b"/", 1)[-1] == exact(entry, "name")
            if entry["type"] == "d":
                folders.append(path)
            if entry["mtime"] is not None:
                found[path] = {name: entry[name] for name in ("type", "mode", "size", "mtime", "user", "group")}
                if entry["type"] in "dl":
                    found[path]["size"] = None
    return found


# --- the checks -----------------------------------------------------------------------------------------------------


def check_everything(told: Told) -> dict[str, int]:
    """Compare all responses with the engine; return how many comparisons were made."""
    archives = told.archives()
    said = {one["name"]: told.listed_by_engine(one["name"]) for one in archives}
    told.engine.refresh()
    assert set(told.engine.ids) == set(said)
    assert {one["history_state"] for one in archives} <= {"indexed"}
    for one in archives:
        assert comparable(browsed(told.shelf, one["id"], told.rng)) == comparable(said[one["name"]]), one["name"]
        assert one["history_rows"] == len(said[one["name"]])
    return {
        "archives": len(archives),
        "changes": check_changes(told, archives),
        "histories": check_histories(told, archives, said),
        "searches": check_searches(told, archives, said),
    }


def comparable(files: Files) -> Files:
    """The engine lists further names of a file as hard links; the index resolves them."""
    return {path: {**file, "type": file["type"].replace("h", "-")} for path, file in files.items()}


def check_changes(told: Told, archives: list[dict[str, Any]]) -> int:
    pairs = [told.rng.sample(archives, 2) for _ in range(3)] if len(archives) > 1 else []
    for before, after in pairs:
        rows = list(
            pages(
                told.shelf,
                f"/archives/{after['id']}/changes",
                "changes",
                told.rng.choice([2, 500]),
                compare_to=before["id"],
            )
        )
        expected = told.engine.changed_by_engine(before["name"], after["name"])
        assert {printable(exact(row)): row["change"] for row in rows} == expected
    return len(pairs)


def check_histories(told: Told, archives: list[dict[str, Any]], said: dict[str, Files]) -> int:
    every = sorted({path for files in said.values() for path in files})
    chosen = told.rng.sample(every, min(8, len(every)))
    for path in [*chosen, b"never/was"]:
        found = told.shelf.get("/history", **asked(path))
        expected_ranges, expected_events = [], []
        for series in sorted({one["series"] for one in archives}):
            members = [one for one in archives if one["series"] == series]
            holders = [path in said[one["name"]] for one in members]
            expected_ranges += ranges_of(series, members, holders)
            expected_events += events_of(members, [said[one["name"]].get(path) for one in members])
        assert [(one["series"], one["from_archive_id"], one["to_archive_id"]) for one in found["present"]] == (
            expected_ranges
        )
        events = {(one["archive_id"], one["change"]) for one in found["entries"]}
        assert expected_events_hold(events, expected_events), (path, events, expected_events)
        assert found["present_in_latest"] == any(end is None for _, _, end in expected_ranges)
    return len(chosen) + 1


def ranges_of(series: str, members: list[dict[str, Any]], holders: list[bool]) -> list[tuple[str, int, int | None]]:
    ranges: list[tuple[str, int, int | None]] = []
    begun: int | None = None
    for number, holds in enumerate(holders):
        if holds and begun is None:
            begun = members[number]["id"]
        if begun is not None and not holds:
            ranges.append((series, begun, members[number - 1]["id"]))
            begun = None
    if begun is not None:
        ranges.append((series, begun, None))
    return ranges


def events_of(members: list[dict[str, Any]], files: list[File | None]) -> list[tuple[int, str, bool]]:
    """Each event, and whether the listing shows it: it does not show different content with the same size and time."""
    events: list[tuple[int, str, bool]] = []
    before: File | None = None
    for archive, file in zip(members, files, strict=True):
        if file is not None and before is None:
            events.append((archive["id"], "added", True))
        elif file is None and before is not None:
            events.append((archive["id"], "removed", True))
        elif file is not None and file != before:
            events.append((archive["id"], "modified", True))
        elif file is not None:
            events.append((archive["id"], "modified", False))
        before = file
    return events


def expected_events_hold(events: set[tuple[int, str]], expected: list[tuple[int, str, bool]]) -> bool:
    must = {(archive, word) for archive, word, shown in expected if shown}
    may = must | {(archive, word) for archive, word, _ in expected}
    return must <= events <= may


def check_searches(told: Told, archives: list[dict[str, Any]], said: dict[str, Files]) -> int:
    every = {path for files in said.values() for path in files}
    names = sorted({path.rsplit(b"/", 1)[-1].decode("utf-8", "ignore") for path in every} - {""})
    queries = [part_of(told.rng.choice(names), told.rng) for _ in range(4)]
    queries += ["f", "dir0/", "sub/f", "no such name"]
    newest = [max((one for one in archives if one["series"] == series), key=at) for series in series_of(archives)]
    latest = {path for one in newest for path in said[one["name"]]}
    for query in queries:
        matching = {path for path in every if matches(path, query)}
        for deleted_only in (False, True):
            wanted = matching - latest if deleted_only else matching
            hits = list(
                pages(
                    told.shelf,
                    "/search",
                    "results",
                    told.rng.choice([3, 500]),
                    q=query,
                    deleted_only=deleted_only,
                )
            )
            assert sorted(exact(hit) for hit in hits) == sorted(wanted), (query, deleted_only)
            for hit in hits:
                holders = [one["id"] for one in archives if exact(hit) in said[one["name"]]]
                assert (hit["archive_count"], hit["first_seen"], hit["last_seen"]) == (
                    len(holders),
                    holders[0],
                    holders[-1],
                )
    return 2 * len(queries)


def at(archive: dict[str, Any]) -> tuple[str, int]:
    return archive["start"], archive["id"]


def series_of(archives: list[dict[str, Any]]) -> set[str]:
    return {one["series"] for one in archives}


def part_of(name: str, rng: random.Random) -> str:
    start = rng.randrange(len(name))
    return name[start : start + rng.randint(1, 5)].strip() or "f"


def matches(path: bytes, query: str) -> bool:
    text = path.decode("utf-8", "surrogateescape")
    where = f"/{text}" if "/" in query else text.rsplit("/", 1)[-1]
    return query.casefold() in where.casefold()


# --- the test -------------------------------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize("seed", SEEDS)
def test_the_index_matches_the_engine_whatever_happens_to_a_repository(
    by_chunks: Installed, tmp_path_factory: pytest.TempPathFactory, seed: int
) -> None:
    rng = random.Random(seed)
    folder = tmp_path_factory.mktemp("told")
    tree = folder / "tree"
    repository = by_chunks.client.create_repository(
        folder / "repository", [tree], passphrase=PASSPHRASE, index_mode="full", name=f"told-{folder.name}-{seed}"
    )
    engine = RealRepository(ENGINES["1.4"], folder, location=repository["path"])
    plant(tree, rng)
    told = Told(Shelf(by_chunks, repository, tree), engine, rng)
    told.back_up()
    told.back_up()
    steps: list[Callable[[], None]] = [
        *(told.back_up, told.back_up_dated_back, told.delete, told.rename, told.prune, told.catch_up),
    ]
    counted = check_everything(told)
    for number in range(STEPS):
        # Each kind of step once, in some order, and then random ones.
        steps[number % len(steps)]() if number < len(steps) else rng.choice(steps)()
        if number % 2:
            counted = check_everything(told)
    assert min(counted.values()) > 0
    assert get(by_chunks.client, f"/api/operations/repositories/{repository['id']}")["failed_archives"] == []
