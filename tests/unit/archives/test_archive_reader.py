"""How archives of other machines are read, as far as that can be determined without contacting them."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from backup_engine.command import CalledAgent, Command, Machine, RepositoryGuard
from backup_engine.detect import identified
from backup_engine.requests import RepositoryLocation
from holdfast.archives.archive_reader import reader
from holdfast.archives.repository_not_opened import RepositoryNotOpened
from holdfast.history.chunks.route import Route, RouteChooser

AGENT = CalledAgent("machine", 1, 1, "/nowhere")
MACHINE = Machine("machine", ("false",), None)


@pytest.mark.parametrize(
    ("machine", "path", "version", "reason"),
    [
        (AGENT, "/r", "1.4.5", "the agent is too old to read chunks"),
        (AGENT, "sftp://host/r", "2.0.0b23", "the repository is not on the engine's machine"),
        (MACHINE, "/r", "1.4.5", "the engine's machine has no Python 3.9 or newer"),
        (Machine("machine", ("false",), "python3"), "/r", "1.5.0", "not one the chunk route was written for"),
    ],
)
def test_archives_are_read_by_listing_if_their_machine_cannot_read_chunks(
    tmp_path: Path, machine: Any, path: str, version: str, reason: str
) -> None:
    engine = SimpleNamespace(
        program=identified("/usr/bin/borg", version), reads_chunks=False, list_archives=lambda *_: None
    )
    location = RepositoryLocation(path, machine=machine)
    work: Any = SimpleNamespace(engine=engine, location=location, repository=SimpleNamespace(history_index_excludes=[]))
    index: Any = None
    with reader(work, index, RouteChooser(tmp_path / "verdicts.json")) as reading:
        assert reading.chunks is None
        assert reason in reading.reason


def test_another_repository_at_the_path_is_not_read_by_chunks(tmp_path: Path) -> None:
    """The chunk reader is not an engine run, so the guard of engine runs does not protect it."""
    (tmp_path / "config").write_text(f"[repository]\nid = {'2' * 64}\n")
    guard = RepositoryGuard(1, "1" * 64, str(tmp_path), "/bin/borg", ())
    engine = SimpleNamespace(
        program=identified("/nowhere/borg", "1.4.5"), list_archives=lambda *_: Command(("false",), {}, guard=guard)
    )
    repository = SimpleNamespace(history_index_excludes=[])
    work: Any = SimpleNamespace(engine=engine, location=RepositoryLocation(str(tmp_path)), repository=repository)
    chooser: Any = SimpleNamespace(choose=lambda *_: SimpleNamespace(route=Route.CHUNKS, reason=""))
    index: Any = None

    with pytest.raises(RepositoryNotOpened) as refused, reader(work, index, chooser):
        pass

    assert refused.value.outcome.error_key == "repository.replaced"
