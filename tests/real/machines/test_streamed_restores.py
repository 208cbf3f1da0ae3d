"""Restores from the repository of one machine to another: streamed through the service, without a copy."""

import stat
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest

from tests.support.engines import ENGINE_2, ENGINES
from tests.support.processes import processes_naming
from tests.support.running import Running, Services
from tests.support.service import wait_until
from tests.support.sshd import Sshd, sshd
from tests.support.trees import FIFO, MEBIBYTE, Seen, blocks_of, look_at, make_difficult_tree

AT_LENGTH = pytest.param("ssh", marks=pytest.mark.campaign)
ENGINE = """#!/bin/sh
case " $* " in *" export-tar "*)
    case "$(cat {folder}/mode)" in
        waits) touch {folder}/waits; while [ -e {folder}/waits ]; do sleep 0.05; done ;;
        stalls) {engine} "$@" | head -c 100000; touch {folder}/stalls; exec sleep 3456.5 ;;
        breaks_off) {engine} "$@" | head -c 100000; exit 0 ;;
    esac
esac
exec {engine} "$@"
"""


@dataclass
class Site:
    """A repository that one machine opens, another machine, and the service between them."""

    running: Running
    first: Sshd
    second: Sshd
    second_id: int
    source: Path
    repository: dict[str, Any]

    def set_mode(self, word: str) -> None:
        (self.first.folder / "mode").write_text(word)

    def start(self, destination: Path, to: str, **more: Any) -> int:
        machine = {"destination_machine_id": self.second_id} if to == "ssh" else {}
        body = {
            "repository_id": self.repository["id"],
            "archive": "whole",
            "destination": str(destination),
            "destination_type": to,
        }
        answer = self.running.admin.post("/api/restore/start", json={**body, **machine, **more})
        assert answer.status_code == 200, answer.text
        return int(answer.json()["job_id"])

    def restore(self, destination: Path, to: str, **more: Any) -> dict[str, Any]:
        return self.running.admin.wait_for_end(self.start(destination, to, **more))

    def reached(self, word: str) -> Path:
        file = self.first.folder / word
        wait_until(file.exists, what=f"the engine {word}")
        return file


def make_site(services: Services, folder: Path, first: Sshd, second: Sshd, engine: str) -> Site:
    running = services.get()
    program = first.folder / "engine"
    program.write_text(ENGINE.format(folder=first.folder, engine=ENGINE_2 if engine == "2" else ENGINES[engine]))
    program.chmod(0o755)
    (first.folder / "mode").write_text("")
    first_id = first.connection(running.admin, running.new_name("first"), engine_path=str(program))
    second_id = second.connection(running.admin, running.new_name("second"))
    source = folder / "source"
    make_difficult_tree(source)
    more: dict[str, Any] = {"engine_version": 2} if engine == "2" else {}
    repository = running.admin.create_repository(
        running.new_path(),
        [source],
        encryption="none",
        passphrase=None,
        index_mode="off",
        execution_target="ssh",
        ssh_connection_id=first_id,
        **more,
    )
    made = running.admin.wait_for_end(running.admin.start_backup(repository, archive_name="whole"))
    assert made["status"] == "completed", made
    return Site(running, first, second, second_id, source, repository)


@pytest.fixture(scope="module")
def services(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Services]:
    services = Services(tmp_path_factory.mktemp("streamed"))
    yield services
    services.stop()


@pytest.fixture(scope="module")
def machines(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Sshd, Sshd]]:
    with sshd(tmp_path_factory.mktemp("first")) as first, sshd(tmp_path_factory.mktemp("second")) as second:
        yield first, second


@pytest.fixture(scope="module")
def site(services: Services, machines: tuple[Sshd, Sshd], tmp_path_factory: pytest.TempPathFactory) -> Site:
    return make_site(services, tmp_path_factory.mktemp("tree"), *machines, "1.4")


@pytest.fixture(autouse=True)
def usual_mode(machines: tuple[Sshd, Sshd]) -> Iterator[None]:
    yield
    (machines[0].folder / "mode").write_text("")
    (machines[0].folder / "waits").unlink(missing_ok=True)


def carried(tree: dict[bytes, Seen], *, exactly: bool) -> dict[bytes, Seen]:
    """The part of a tree that a tar stream carries: with engine 1, times in seconds and no extended attributes."""
    kept = {path: seen for path, seen in tree.items() if path != FIFO}
    if exactly:
        return kept
    return {path: replace(seen, modified=seen.modified // 10**9, attributes=()) for path, seen in kept.items()}


def left_over(destination: Path) -> list[Path]:
    return list(destination.rglob(".holdfast-restore-*"))


@pytest.mark.parametrize("to", ["local", AT_LENGTH])
def test_a_difficult_tree_is_restored_from_one_machine_to_another(site: Site, tmp_path: Path, to: str) -> None:
    destination = tmp_path / "made" / "below"
    ended = site.restore(destination, to)

    assert ended["status"] == "completed_with_warnings", (ended["error_key"], ended["error_message"])
    there = destination / str(site.source).lstrip("/")
    assert carried(look_at(there), exactly=False) == carried(look_at(site.source), exactly=False)
    assert blocks_of(there / "sparse.img") < 20 * MEBIBYTE
    files = [seen for path, seen in look_at(site.source).items() if path != FIFO and not stat.S_ISDIR(seen.type)]
    assert (ended["result"]["files_restored"], ended["result"]["special_files"]) == (len(files), 1)
    assert left_over(destination) == []
    assert list(site.running.process.data_dir.rglob("*.tar")) == []


@pytest.mark.campaign
@pytest.mark.parametrize("to", ["local", "ssh"])
def test_the_stream_of_engine_2_carries_attributes_and_times_to_the_microsecond(
    services: Services, tmp_path: Path, to: str
) -> None:
    with sshd(tmp_path / "first") as first, sshd(tmp_path / "second") as second:
        site = make_site(services, tmp_path, first, second, "2")
        ended = site.restore(tmp_path / "made", to)

    assert ended["status"] == "completed_with_warnings", (ended["error_key"], ended["error_message"])
    there = tmp_path / "made" / str(site.source).lstrip("/")
    found, wanted = look_at(there), carried(look_at(site.source), exactly=True)
    assert {path: replace(seen, modified=0) for path, seen in found.items()} == {
        path: replace(seen, modified=0) for path, seen in wanted.items()
    }
    assert all(abs(found[path].modified - seen.modified) < 1000 for path, seen in wanted.items()), "a microsecond"


@pytest.mark.campaign
def test_existing_files_are_skipped_replaced_or_fail_the_restore(site: Site, tmp_path: Path) -> None:
    (tmp_path / "plain.txt").write_text("mine")
    wanted: dict[str, Any] = {"paths": [f"{site.source}/plain.txt"], "restore_layout": "contents_only"}

    failed = site.restore(tmp_path, "local", overwrite="fail", **wanted)
    assert (failed["status"], failed["error_key"]) == ("failed", "restore.conflicts")
    kept = site.restore(tmp_path, "local", overwrite="skip", **wanted)
    assert (kept["status"], kept["result"]["files_skipped"]) == ("completed", 1)
    assert (tmp_path / "plain.txt").read_text() == "mine"
    replaced = site.restore(tmp_path, "local", overwrite="replace", **wanted)
    assert (replaced["status"], replaced["result"]["files_restored"]) == ("completed", 1)
    assert (tmp_path / "plain.txt").read_text() == "plain\n"


@pytest.mark.campaign
@pytest.mark.parametrize("to", ["local", AT_LENGTH])
def test_a_restore_is_resumed_after_the_service_was_killed(site: Site, tmp_path: Path, to: str) -> None:
    site.set_mode("waits")
    job_id = site.start(tmp_path / "made", to, paths=[f"{site.source}/links"])
    waits = site.reached("waits")
    site.running.process.kill()
    site.running.process.restart()
    waits.unlink()
    ended = site.running.admin.wait_for_end(job_id)

    assert (ended["status"], ended["attempt"]) == ("completed", 1), (ended["error_key"], ended["error_message"])
    assert ended["result"]["files_restored"] == 8
    lines = [line for line in site.running.admin.log_lines(job_id) if line.startswith("$ ")]
    assert len(lines) == 1, "the engine ran once"


@pytest.mark.parametrize(("mode", "key"), [("stalls", "engine.unreachable"), ("breaks_off", "engine.failed")])
@pytest.mark.parametrize("to", ["local", AT_LENGTH])
def test_an_incomplete_stream_restores_nothing(site: Site, tmp_path: Path, mode: str, key: str, to: str) -> None:
    site.set_mode(mode)
    job_id = site.start(tmp_path, to)
    if mode == "stalls":
        site.reached(mode).unlink()
        site.first.cut_links()
    ended = site.running.admin.wait_for_end(job_id)

    assert (ended["status"], ended["error_key"]) == ("failed", key), ended["error_message"]
    assert ended["result"]["files_restored"] == 0
    assert list(tmp_path.iterdir()) == []
    wait_until(lambda: not processes_naming("sleep\x003456.5"), what="the engine has stopped there")


def test_a_cancel_stops_the_engine_on_the_machine_and_leaves_nothing(site: Site, tmp_path: Path) -> None:
    site.set_mode("stalls")
    job_id = site.start(tmp_path, "local")
    site.reached("stalls").unlink()
    assert site.running.admin.post(f"/api/restore/cancel/{job_id}").status_code == 200
    ended = site.running.admin.wait_for_end(job_id)

    assert (ended["status"], ended["result"]["files_restored"]) == ("cancelled", 0)
    assert processes_naming("sleep\x003456.5") == {}
    assert list(tmp_path.iterdir()) == []
