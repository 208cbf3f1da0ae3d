"""An agent whose engine restores less than the archive lists reports it, and names the missing files."""

import io
import json
import subprocess
import tarfile
from pathlib import Path

import pytest

from backup_jobs.endings import Completed, Failed
from backup_protocol.frames import DATA, END, SURVEY, frame
from tests.support.agent_job import run_restore
from tests.support.engines import ENGINE_2, ENGINES
from tests.support.running import Services
from tests.support.sshd import sshd
from tests.support.warm_engines import warm_program

LAZY = """#!/bin/sh
case " $* " in *" extract "*) exec {engine} "$@" {wanted} ;; esac
exec {engine} "$@"
"""
"""An engine that extracts one file, whatever was requested, and reports success."""


def program_of(major: int) -> Path:
    program = ENGINES[max(ENGINES)] if major == 1 else ENGINE_2
    assert program is not None
    return warm_program(program)


def lazy_engine(folder: Path, program: Path, name: str = "source/file-0") -> Path:
    script = folder / "borg"
    wanted = name if "/" in name else f"'sh:**/{name}'"
    script.write_text(LAZY.format(engine=program, wanted=wanted))
    script.chmod(0o755)
    return script


def backed_up(folder: Path, major: int) -> Path:
    (folder / "source").mkdir()
    for number in range(3):
        (folder / "source" / f"file-{number}").write_text(f"content {number}")
    repository = folder / "repository"
    environment = {
        "BORG_BASE_DIR": str(folder / "base"),
        "PATH": "/usr/bin:/bin",
        "BORG_UNKNOWN_UNENCRYPTED_REPO_ACCESS_IS_OK": "yes",
    }
    steps = {
        1: [["init", "-e", "none", str(repository)], ["create", f"{repository}::made", "source"]],
        2: [
            ["-r", str(repository), "repo-create", "-e", "none-sha256"],
            ["-r", str(repository), "create", "made", "source"],
        ],
    }[major]
    for arguments in steps:
        subprocess.run([program_of(major), *arguments], cwd=folder, env=environment, check=True, capture_output=True)
    return repository


@pytest.mark.parametrize("major", [1, 2])
def test_an_agent_that_restores_one_of_three_files_fails_and_names_the_others(tmp_path: Path, major: int) -> None:
    repository = backed_up(tmp_path, major)
    engine = lazy_engine(tmp_path, program_of(major))

    ended = run_restore(tmp_path, repository, "made", tmp_path / "made", program=engine, major=major)

    assert isinstance(ended, Failed), ended
    assert ended.error_key == "restore.incomplete"
    assert (ended.details["files_restored"], ended.details["files_failed"]) == (1, 2)
    assert sorted(item["path"] for item in ended.details["failed"]) == ["source/file-1", "source/file-2"]
    assert (tmp_path / "made" / "source" / "file-0").read_text() == "content 0"


def test_an_agent_does_not_restore_a_file_that_the_engine_truncated(tmp_path: Path) -> None:
    repository = backed_up(tmp_path, 1)
    script = tmp_path / "borg"
    short = 'case " $* " in *" extract "*) {engine} "$@" && printf x > source/file-1; exit 0 ;; esac'
    script.write_text(f'#!/bin/sh\n{short}\nexec {{engine}} "$@"\n'.format(engine=program_of(1)))
    script.chmod(0o755)

    ended = run_restore(tmp_path, repository, "made", tmp_path / "made", program=script)

    assert isinstance(ended, Failed), ended
    assert [(item["path"], item["reason"]) for item in ended.details["failed"]] == [
        ("source/file-1", "the engine extracted 1 of 9 bytes")
    ]
    assert sorted(path.name for path in (tmp_path / "made" / "source").iterdir()) == ["file-0", "file-2"]


def test_a_link_that_an_agent_omits_is_reported(tmp_path: Path) -> None:
    """The archive contains files below a symbolic link: the engine would write through it."""
    source, outside = tmp_path / "source", tmp_path / "outside"
    source.mkdir()
    outside.mkdir()
    (outside / "file").write_text("elsewhere")
    (source / "link").symlink_to(outside)
    environment = {"BORG_BASE_DIR": str(tmp_path / "base"), "BORG_UNKNOWN_UNENCRYPTED_REPO_ACCESS_IS_OK": "yes"}
    repository, engine = tmp_path / "repository", program_of(1)
    for arguments in (["init", "-e", "none", repository], ["create", f"{repository}::made", "link", "link/file"]):
        subprocess.run([engine, *arguments], cwd=source, env=environment, check=True)

    ended = run_restore(tmp_path, repository, "made", tmp_path / "made", program=engine)

    assert isinstance(ended, Failed), ended
    assert [(item["path"], item["reason"]) for item in ended.details["failed"]] == [
        ("link", "the archive holds files below this symbolic link")
    ]
    assert (tmp_path / "made" / "link" / "file").read_text() == "elsewhere"


def stream_of(listed: dict[str, int], sent: dict[str, bytes]) -> bytes:
    written = io.BytesIO()
    with tarfile.open(fileobj=written, mode="w") as tar:
        for name, content in sent.items():
            entry = tarfile.TarInfo(name)
            entry.size = len(content)
            tar.addfile(entry, io.BytesIO(content))
    items = [{"path": name, "type": "-", "size": size} for name, size in listed.items()]
    survey = {"files": len(listed), "size": sum(listed.values()), "listed": items}
    return b"".join(
        (
            frame(SURVEY, json.dumps(survey).encode()),
            frame(DATA, written.getvalue()),
            frame(END, json.dumps({"status": "completed"}).encode()),
        )
    )


def received(folder: Path, stream: bytes) -> Failed | Completed:
    ended = run_restore(folder, folder / "none", "made", folder / "made", program=folder, stream=stream)
    assert isinstance(ended, Failed | Completed)
    return ended


def test_an_agent_that_receives_one_of_three_files_fails_and_names_the_others(tmp_path: Path) -> None:
    ended = received(tmp_path, stream_of({"a": 1, "b": 2, "c": 3}, {"a": b"1"}))

    assert isinstance(ended, Failed)
    assert ended.error_key == "restore.incomplete"
    assert (ended.details["files_restored"], ended.details["files_failed"]) == (1, 2)
    assert [item["path"] for item in ended.details["failed"]] == ["b", "c"]


def test_an_agent_that_receives_all_files_completes(tmp_path: Path) -> None:
    ended = received(tmp_path, stream_of({"a": 1, "b/c": 2}, {"a": b"1", "b/c": b"22"}))

    assert isinstance(ended, Completed), ended
    assert (ended.details["files_restored"], ended.details["files_failed"]) == (2, 0)


@pytest.mark.parametrize("name", ["../victim", "/victim", "up/victim", "deep/../../victim"])
def test_a_compromised_service_cannot_remove_a_file_by_listing_it(tmp_path: Path, name: str) -> None:
    """A file whose listed size is wrong is removed from the received tree only."""
    victim = tmp_path / "victim"
    victim.write_text("precious")
    stream = stream_of({"a": 1, "x/../" + name: 5, name: 5}, {"a": b"1"})

    ended = received(tmp_path, stream)

    assert isinstance(ended, Failed)
    assert victim.read_text() == "precious"


# --- ssh machines -----------------------------------------------------------------------------------------------------


def test_an_ssh_machine_that_restores_one_of_three_files_fails_and_names_the_others(tmp_path: Path) -> None:
    """The engine there reports success; the listing reveals what it has not extracted."""
    services = Services(tmp_path / "services")
    (tmp_path / "services").mkdir()
    (tmp_path / "engine").mkdir()
    engine = lazy_engine(tmp_path / "engine", program_of(1), "file-0")
    try:
        with sshd(tmp_path / "machine") as machine:
            running = services.get()
            number = machine.connection(running.admin, "far", engine_path=str(engine))
            far = {"execution_target": "ssh", "ssh_connection_id": number}
            source = running.new_source()
            repository = running.new_repository(source_paths=[source], **far)
            backed_up = running.admin.start_backup(repository, archive_name="whole")
            assert running.admin.wait_for_end(backed_up)["status"] == "completed"
            body = {"repository_id": repository["id"], "archive": "whole", "destination": str(tmp_path / "made")}
            started = running.admin.post("/api/restore/start", json={**body, "destination_type": "ssh"})
            assert started.status_code == 200, started.text
            ended = running.admin.wait_for_end(started.json()["job_id"])
    finally:
        services.stop()

    assert (ended["status"], ended["error_key"]) == ("failed", "restore.incomplete")
    assert (ended["result"]["files_restored"], ended["result"]["files_failed"]) == (1, 2)
    names = [item["path"].rpartition("/")[2] for item in ended["result"]["failed"]]
    assert names == ["file-1", "file-2"]
