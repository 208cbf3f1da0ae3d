"""What the guards check about a repository right before and right after its engine runs: each guard in isolation."""

import configparser
import fcntl
import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from backup_engine import repository_guard as guards

KNOWN, OTHER = "a" * 64, "b" * 64
OWN_NAME = "holdfast@1"


@pytest.fixture(autouse=True)
def spool(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of the run, the shim's working directory."""
    folder = tmp_path / "spool"
    folder.mkdir()
    monkeypatch.chdir(folder)
    return folder


@pytest.fixture
def environment(tmp_path: Path) -> dict[str, str]:
    return {"BORG_BASE_DIR": str(tmp_path / "base"), "BORG_HOST_ID": OWN_NAME}


@pytest.fixture(autouse=True)
def engine_ends(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[], None]]:
    """Closes the descriptors that the engine would have inherited."""
    inherited: list[int] = []
    monkeypatch.setattr(guards.os, "set_inheritable", lambda descriptor, _: inherited.append(descriptor))

    def end() -> None:
        while inherited:
            os.close(inherited.pop())

    yield end
    end()


def guard(**more: Any) -> dict[str, Any]:
    return {"major": 1, "engine_id": KNOWN, "path": None, "older": "refuse", **more}


def repository(folder: Path, engine_id: str, major: int = 1) -> str:
    """Just enough of a repository for its id to be read."""
    folder.mkdir()
    if major == 1:
        (folder / "config").write_text(f"[repository]\nversion = 1\nid = {engine_id}\n")
    else:
        (folder / "config").mkdir()
        (folder / "config" / "id").write_text(engine_id)
    return str(folder)


def record(environment: dict[str, str], major: int, timestamp: str) -> Path:
    folder = Path(guards.record_folder(major, environment, KNOWN))
    folder.mkdir(parents=True)
    (folder / guards.TIMESTAMP).write_text(timestamp)
    return folder


# --- which repository it is -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("major", [1, 2])
def test_no_engine_runs_on_a_different_repository(tmp_path: Path, environment: dict[str, str], major: int) -> None:
    path = repository(tmp_path / "repository", OTHER, major)
    with pytest.raises(guards.Refused) as refused:
        guards.prepare(guard(path=path, major=major), environment, None)
    assert json.loads(refused.value.lines)["msgid"] == guards.REPLACED
    assert OTHER in json.loads(refused.value.lines)["message"]


@pytest.mark.parametrize("major", [1, 2])
def test_the_expected_repository_and_one_without_a_recorded_id_are_let_through(
    tmp_path: Path, environment: dict[str, str], major: int
) -> None:
    path = repository(tmp_path / "repository", KNOWN.upper(), major)
    guards.prepare(guard(path=path, major=major), environment, None)
    guards.prepare(guard(path=path, major=major, engine_id=None), environment, None)


@pytest.mark.parametrize("line", ["id={}", "id =\n\t{}", " id  =  {}  ", "id = {}\r"])
def test_an_id_in_an_unusual_spelling_is_found(tmp_path: Path, line: str) -> None:
    (tmp_path / "config").write_text(f"[repository]\n{line.format(OTHER)}\nversion = 1\n", newline="")
    assert guards.id_in_folder(str(tmp_path)) == OTHER


@pytest.mark.parametrize(
    ("config", "found"),
    [
        ("[repository]\nid = {known}\nkey = a\n", KNOWN),
        ("[other]\nid = {other}\n[repository]\nid = {known}\n", KNOWN),
        ("[repository]\nid={known}\n[other]\nid = {other}\n", KNOWN),
        ("[repository]\nversion = 1\rid = {known}\n", KNOWN),
        ("[repository]\nversion = 1\n id = {other}\n", None),
        ("[repository]\nid={other}\nid = {known}\n", None),
        ("[repository]\nid = {other}\nid = {known}\n", None),
        ("# [repository]\nid = {known}\n", None),
        ("id = {known}\n", None),
        ("[repository]\nid = %(x)s{known}\n", None),
        ("[repository]\nversion = 1\n", None),
    ],
)
def test_the_guard_reads_the_id_that_the_engine_reads(tmp_path: Path, config: str, found: str | None) -> None:
    """Otherwise somebody who can write to a repository could show the guard another id than the engine."""
    (tmp_path / "config").write_bytes(config.format(known=KNOWN, other=OTHER).encode())
    engine = configparser.ConfigParser(interpolation=None)
    with suppress(configparser.Error), (tmp_path / "config").open() as file:
        engine.read_file(file)
    read = engine.get("repository", "id", fallback=None)

    assert guards.id_in_folder(str(tmp_path)) == found
    assert found is None or read == found


def test_an_invalid_id_never_becomes_the_name_of_a_folder(tmp_path: Path, environment: dict[str, str]) -> None:
    (tmp_path / "repository").mkdir()
    strange = guard(path=str(tmp_path / "repository"), major=2, engine_id="../../../../evil")
    guards.prepare(strange, environment, None)
    assert "BORG_SECURITY_DIR" not in environment
    assert not list(tmp_path.rglob("evil"))


@pytest.mark.parametrize(
    ("more", "is_piped", "needed"),
    [
        ({"path": "/repository"}, False, False),
        ({}, False, True),
        ({"tells_id": True}, False, False),
        ({"tells_id": True}, True, True),
        ({"engine_id": None}, False, False),
        ({"engine_id": None, "older": "accept"}, False, True),
        ({"tells_id": True, "older": "accept"}, False, True),
    ],
)
def test_the_engine_is_probed_first_if_nothing_else_identifies_the_repository(
    more: dict[str, Any], is_piped: bool, needed: bool
) -> None:
    assert guards.needs_probe(guard(**more), is_piped) is needed


def engine_saying(folder: Path, code: str) -> dict[str, Any]:
    program = folder / "engine.py"
    program.write_text(f"import sys\n{code}")
    return {"program": sys.executable, "probe": [str(program)]}


def test_an_engine_does_not_run_if_its_probe_names_another_repository(
    tmp_path: Path, environment: dict[str, str]
) -> None:
    asked = engine_saying(tmp_path, f'print(\'{{"repository": {{"id": "{OTHER}"}}}}\')')
    with pytest.raises(guards.Refused, match="2"):
        guards.prepare(guard(**asked), environment, dict(os.environ))


def test_a_failed_probe_ends_the_run_with_the_engines_output_unless_the_run_removes_locks(
    tmp_path: Path, environment: dict[str, str]
) -> None:
    asked = engine_saying(tmp_path, 'print("no way", file=sys.stderr); sys.exit(13)')
    with pytest.raises(guards.Refused) as refused:
        guards.prepare(guard(**asked), environment, dict(os.environ))
    assert (refused.value.code, refused.value.lines) == (13, b"no way\n")

    guards.prepare(guard(**asked, must_tell=False), environment, dict(os.environ))


def test_a_probe_with_too_much_output_is_ended(
    tmp_path: Path, environment: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(guards, "LARGEST_PROBE", 1000)
    asked = engine_saying(tmp_path, 'sys.stdout.write("x" * 5000); sys.stdout.flush()\nimport time; time.sleep(3600)')
    with pytest.raises(guards.Refused):
        guards.prepare(guard(**asked), environment, dict(os.environ))


@pytest.mark.parametrize("answer", [b"", b"nonsense", b"[]", b'{"repository": {"id": 5}}', b"[" * 100_000])
def test_probe_output_that_names_no_repository_yields_no_id(answer: bytes) -> None:
    assert guards.reported_id(answer) is None


def test_output_that_names_another_repository_is_discarded(spool: Path) -> None:
    (spool / "out").write_text(json.dumps({"archives": [], "repository": {"id": OTHER}}))
    refused = guards.conclude(guard(tells_id=True), {}, 0)
    assert refused is not None
    assert refused.code == guards.REFUSED
    assert (spool / "out").read_bytes() == b""


@pytest.mark.parametrize(
    ("more", "found"),
    [({"tells_id": True}, KNOWN), ({"tells_id": False}, OTHER), ({"tells_id": True, "path": "/r"}, OTHER)],
)
def test_output_of_the_expected_repository_or_of_one_checked_before_the_run_is_kept(
    spool: Path, more: dict[str, Any], found: str
) -> None:
    content = json.dumps({"repository": {"id": found}})
    (spool / "out").write_text(content)
    assert guards.conclude(guard(**more), {}, 0) is None
    assert (spool / "out").read_text() == content


# --- how new it is ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("older", "is_kept"), [("refuse", True), ("accept", False)])
def test_the_record_of_a_newer_state_is_removed_only_if_the_user_accepts_an_older_one(
    tmp_path: Path, environment: dict[str, str], older: str, is_kept: bool
) -> None:
    path = repository(tmp_path / "repository", KNOWN)
    folder = record(environment, 1, "2026-01-01")
    (folder / "nonce").write_text("7")
    (folder / ".pending").write_text("2026-02-01")
    cache = Path(environment["BORG_BASE_DIR"], ".cache", "borg", KNOWN, "config")
    cache.parent.mkdir(parents=True)
    cache.write_text("[cache]\nversion = 1\ntimestamp = 2026-01-01\n[integrity]\nmanifest = 5\n")

    guards.prepare(guard(path=path, older=older), environment, None)

    assert (folder / guards.TIMESTAMP).exists() is is_kept
    assert (folder / ".pending").exists() is is_kept
    assert ("timestamp" in cache.read_text()) is is_kept
    assert cache.read_text().endswith("[integrity]\nmanifest = 5\n")
    assert (folder / "nonce").read_text() == "7"


@pytest.mark.parametrize("major", [1, 2])
def test_a_look_uses_temporary_records(tmp_path: Path, environment: dict[str, str], spool: Path, major: int) -> None:
    path = repository(tmp_path / "repository", KNOWN, major)
    folder = record(environment, major, "2026-01-01")
    look = guard(path=path, older="look", major=major)
    guards.prepare(look, environment, None)
    assert environment["BORG_SECURITY_DIR"].startswith(str(spool))
    assert environment["BORG_CACHE_DIR"].startswith(str(spool))
    Path(guards.PRIVATE, KNOWN).mkdir(parents=True)
    learnt(KNOWN, "2026-02-01")

    guards.conclude(look, environment, 0)

    assert (folder / guards.TIMESTAMP).read_text() == "2026-01-01"
    assert not (spool / guards.PRIVATE).exists()


@pytest.mark.parametrize(("older", "has_own_records"), [("refuse", False), ("look", True), ("accept", True)])
def test_a_probe_of_a_possibly_older_repository_uses_temporary_records(
    tmp_path: Path, environment: dict[str, str], spool: Path, older: str, has_own_records: bool
) -> None:
    """Otherwise the engine would refuse the older repository when it is only queried for its id."""
    seen = tmp_path / "seen"
    code = (
        f"import os\nopen({str(seen)!r}, 'w').write(os.environ.get('BORG_SECURITY_DIR', ''))\n"
        f'print(\'{{"repository": {{"id": "{KNOWN}"}}}}\')'
    )
    guards.prepare(guard(older=older, **engine_saying(tmp_path, code)), environment, dict(os.environ))

    assert seen.read_text().startswith(str(spool)) is has_own_records
    assert guards.PROBE in seen.read_text() or not has_own_records


def test_a_lent_record_is_readable_only_by_its_owner(
    environment: dict[str, str], engine_ends: Callable[[], None]
) -> None:
    before = os.umask(0o022)
    try:
        record(environment, 2, "2026-01-01")
        Path(guards.record_folder(2, environment, OTHER)).parent.mkdir(exist_ok=True)
        for engine_id in (KNOWN, OTHER):
            guards.lend_record(environment, engine_id)
        folders = [Path(guards.record_folder(2, environment, OTHER))]
        folders += [Path(name, engine_id) for name in (guards.PRIVATE, guards.LENT) for engine_id in (KNOWN, OTHER)]
        assert {folder.stat().st_mode & 0o777 for folder in folders} == {0o700}
        assert Path(guards.PRIVATE, KNOWN, guards.TIMESTAMP).stat().st_mode & 0o777 == 0o600
    finally:
        os.umask(before)


def test_only_the_start_of_an_oversized_file_is_read(tmp_path: Path) -> None:
    flood = tmp_path / "flood"
    with flood.open("wb") as stream:
        stream.truncate(1 << 30)

    assert len(guards.read(str(flood)) or b"") == guards.LARGEST_FILE


def learnt(engine_id: str, timestamp: str) -> None:
    """Update the lent record as an engine would."""
    Path(guards.PRIVATE, engine_id, guards.TIMESTAMP).write_text(timestamp)


def test_a_run_of_engine_2_works_on_a_copy_of_the_record_and_its_update_is_put_back(
    tmp_path: Path, environment: dict[str, str], spool: Path, engine_ends: Callable[[], None]
) -> None:
    path = repository(tmp_path / "repository", KNOWN, 2)
    folder = record(environment, 2, "2026-01-01")
    lent = guard(path=path, major=2)
    guards.prepare(lent, environment, None)
    engine_ends()
    assert environment["BORG_SECURITY_DIR"] == str(spool / guards.PRIVATE)
    learnt(KNOWN, "2026-02-01")
    assert (folder / guards.TIMESTAMP).read_text() == "2026-01-01"

    guards.conclude(lent, environment, 0)

    assert (folder / guards.TIMESTAMP).read_text() == "2026-02-01"
    assert not (spool / guards.PRIVATE).exists()


def test_the_oldest_timestamp_stays_pending_until_the_last_run_puts_it_into_the_record(
    environment: dict[str, str],
) -> None:
    folder = record(environment, 2, "2026-01-01")
    other = os.open(folder / ".runs", os.O_RDWR | os.O_CREAT)
    fcntl.flock(other, fcntl.LOCK_SH)
    guards.put_timestamp_back(str(folder), b"2026-03-01")
    guards.put_timestamp_back(str(folder), b"2026-02-01")
    assert (folder / guards.TIMESTAMP).read_text() == "2026-01-01"
    os.close(other)

    guards.put_timestamp_back(str(folder), b"2026-04-01")

    assert (folder / guards.TIMESTAMP).read_text() == "2026-02-01"
    assert not (folder / ".pending").exists()


def test_a_run_that_others_outlive_leaves_its_timestamp_pending_and_the_record_unchanged(
    tmp_path: Path, environment: dict[str, str], engine_ends: Callable[[], None]
) -> None:
    """The engine that is still running holds the inherited lock of the record."""
    lent = guard(path=repository(tmp_path / "repository", KNOWN, 2), major=2)
    folder = record(environment, 2, "2026-01-01")
    guards.prepare(lent, environment, None)
    learnt(KNOWN, "2026-02-01")

    guards.conclude(lent, environment, 0)
    assert (folder / guards.TIMESTAMP).read_text() == "2026-01-01"

    engine_ends()
    guards.put_timestamp_back(str(folder), None)
    assert (folder / guards.TIMESTAMP).read_text() == "2026-02-01"


def test_a_reader_without_news_still_puts_back_the_pending_timestamp_of_a_concurrent_writer(
    tmp_path: Path, environment: dict[str, str], engine_ends: Callable[[], None]
) -> None:
    lent = guard(path=repository(tmp_path / "repository", KNOWN, 2), major=2)
    folder = record(environment, 2, "2026-01-01")
    guards.prepare(lent, environment, None)
    engine_ends()
    (folder / ".pending").write_text("2026-02-01")

    guards.conclude(lent, environment, 0)

    assert (folder / guards.TIMESTAMP).read_text() == "2026-02-01"


@pytest.mark.parametrize("name", ["key-type", "location"])
def test_the_key_type_and_location_seen_by_a_run_are_kept_for_the_next_one(
    tmp_path: Path, environment: dict[str, str], engine_ends: Callable[[], None], name: str
) -> None:
    """Without them the engine would not notice that the repository has moved or is no longer encrypted."""
    lent = guard(path=repository(tmp_path / "repository", KNOWN, 2), major=2)
    guards.prepare(lent, environment, None)
    engine_ends()
    Path(guards.PRIVATE, KNOWN, name).write_text("seen")
    guards.conclude(lent, environment, 0)

    guards.prepare(lent, environment, None)

    assert Path(environment["BORG_SECURITY_DIR"], KNOWN, name).read_text() == "seen"


def test_runs_that_end_at_the_same_time_put_back_their_timestamps_one_after_the_other(
    environment: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = record(environment, 2, "2026-01-01")
    really_write = guards.write

    def write(file: str, content: bytes, *, synced: bool = True) -> None:
        with (folder / ".merging").open("rb") as other, pytest.raises(BlockingIOError):
            fcntl.flock(other, fcntl.LOCK_EX | fcntl.LOCK_NB)
        really_write(file, content, synced=synced)

    monkeypatch.setattr(guards, "write", write)
    guards.put_timestamp_back(str(folder), b"2026-02-01")
    assert (folder / guards.TIMESTAMP).read_text() == "2026-02-01"


def test_the_record_never_goes_back_and_a_run_without_news_leaves_it_unchanged(environment: dict[str, str]) -> None:
    folder = record(environment, 2, "2026-05-01")
    guards.put_timestamp_back(str(folder), b"2026-04-01")
    guards.put_timestamp_back(str(folder), None)
    assert (folder / guards.TIMESTAMP).read_text() == "2026-05-01"


# --- locks ------------------------------------------------------------------------------------------------------------


def locked_by(path: str, host: str, pid: int) -> None:
    (Path(path) / "lock.exclusive").mkdir(exist_ok=True)
    (Path(path) / "lock.exclusive" / f"{host}.{pid}-0").touch()


def dead_pid() -> int:
    child = subprocess.Popen(["true"])
    child.wait()
    return child.pid


@pytest.mark.parametrize(
    ("host", "is_dead", "is_cleared"),
    [
        ("this machine", True, True),
        ("this machine", False, False),
        ("elsewhere@5", True, False),
        (OWN_NAME, True, False),
    ],
)
def test_the_engine_may_clear_a_lock_only_if_a_dead_engine_of_this_machine_holds_it(
    tmp_path: Path, environment: dict[str, str], host: str, is_dead: bool, is_cleared: bool
) -> None:
    path = repository(tmp_path / "repository", KNOWN)
    name = guards.name_of_this_machine() if host == "this machine" else host
    locked_by(path, name, dead_pid() if is_dead else os.getpid())
    guards.prepare(guard(path=path), environment, None)
    assert ("BORG_HOST_ID" not in environment) is is_cleared


def test_the_holder_of_the_lock_is_reported_only_if_the_engine_failed_to_get_the_lock(tmp_path: Path) -> None:
    path = repository(tmp_path / "repository", KNOWN)
    locked_by(path, "elsewhere@5", 4711)
    told = guards.conclude(guard(path=path), {}, 73)
    assert told is not None
    assert told.code == 73
    assert "process 4711 of elsewhere@5" in json.loads(told.lines)["message"]
    assert guards.conclude(guard(path=path), {}, 1) is None


@pytest.mark.parametrize(
    "content",
    [
        "nonsense",
        "[]",
        '{"shared": [1]}',
        '{"shared": [["host", "x", 0]]}',
        '{"shared": [["host", 1e999, 0]]}',
        '{"hostid": "host", "processid": 1e999, "time": ""}',
        "[" * 60_000,
    ],
)
def test_unreadable_locks_name_no_holder(tmp_path: Path, content: str) -> None:
    path = repository(tmp_path / "repository", KNOWN)
    (Path(path) / "lock.roster").write_text(content)
    (Path(path) / "locks").mkdir()
    (Path(path) / "locks" / "one").write_text(content)
    assert guards.lock_holders(path) == []
