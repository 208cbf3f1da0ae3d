"""Engines of major 2 work on one repository at the same time, and none mistakes another's traces for an attack."""

import os
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import pytest

from backup_engine import requests
from backup_engine.command import Command
from backup_engine.detect import detect
from backup_engine.environment import EngineEnvironment
from backup_engine.interface import Engine, engine_for
from backup_engine.outcome import Accumulator
from backup_engine.parse import parse_line
from backup_engine.process import Spool
from backup_engine.requests import RepositoryLocation
from backup_engine.results import parse_info
from backup_engine.stream_reader import engine_outcome
from tests.support.engines import ENGINE_2
from tests.support.warm_engines import warm_program

SECONDS = 600.0
MODE = "aes256-ocb"

pytestmark = pytest.mark.skipif(ENGINE_2 is None, reason="there is no engine of major 2")


class Site:
    def __init__(self, folder: Path) -> None:
        assert ENGINE_2 is not None
        self.folder = folder
        environment = EngineEnvironment(str(folder / "base"), "tests@1")
        self.engine: Engine = engine_for(detect(str(warm_program(ENGINE_2)), str(folder)), environment, lock_wait=60)
        source = folder / "source"
        source.mkdir()
        (source / "file").write_text("content")
        # Opening the key takes a while, between reading the repository's state and comparing it with the record.
        location = RepositoryLocation(str(folder / "repository"), "a passphrase", MODE)
        assert self.run("init", self.engine.init(location, requests.InitRequest(MODE))) is None
        self.run("info", self.engine.info(location, requests.InfoRequest()))
        known = parse_info((folder / "spools" / "info" / "out").read_bytes())
        self.location = replace(location, engine_id=known.repository_id)

    def run(self, name: str, command: Command) -> str | None:
        """Run a command to its end; return why it failed."""
        spool = Spool(self.folder / "spools" / name)
        child = spool.launch(command)
        assert child.wait(SECONDS)
        record = spool.exit_record()
        assert record is not None
        lines = spool.err.read_bytes().splitlines() if spool.err.exists() else []
        outcome = engine_outcome(record, Accumulator().add_all(map(parse_line, lines)), cancel_requested=False)
        return None if outcome.status.startswith("completed") else f"{name}: {outcome.error_key} {lines[-3:]}"

    def work(self, number: int) -> str | None:
        if number % 2:
            return self.run(f"info-{number}", self.engine.info(self.location, requests.InfoRequest()))
        request = requests.CreateRequest(f"series-{number % 4}", (str(self.folder / "source"),))
        return self.run(f"create-{number}", self.engine.create(self.location, request))


def failures(folder: Path, runs: int, at_once: int) -> list[str]:
    site = Site(folder)
    with ThreadPoolExecutor(at_once) as pool:
        ended = list(pool.map(site.work, range(runs)))
    assert site.run("last", site.engine.list_archives(site.location, requests.ListArchivesRequest())) is None
    listed = (folder / "spools" / "last" / "out").read_bytes()
    assert listed.count(b'"archive":') == (runs + 1) // 2
    return [failure for failure in ended if failure]


def test_simultaneous_backups_and_readers_of_one_repository_all_succeed(tmp_path: Path) -> None:
    assert failures(tmp_path, 8, 8) == []


@pytest.mark.campaign
def test_four_hundred_simultaneous_runs_on_one_repository_all_succeed(tmp_path: Path) -> None:
    """200 backups, and 200 readers beside them."""
    assert failures(tmp_path, int(os.environ.get("HOLDFAST_SIDE_BY_SIDE", "400")), 8) == []
