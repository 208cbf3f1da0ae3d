"""However much an engine, an ssh machine or a service writes, its reader accepts a bounded amount and reports that."""

import contextlib
import io
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from backup_agent.restore_stream import LinkCut, RestoreStream
from backup_engine import bounded_json
from backup_engine.borg1.engine import Borg1Engine
from backup_engine.command import LARGEST_RESULT, LARGEST_STREAM, Command, Machine
from backup_engine.detect import EngineProgram
from backup_engine.environment import EngineEnvironment
from backup_engine.far import remote_run, run
from backup_engine.outcome import Outcome
from backup_engine.process import Spool, SpoolState
from backup_engine.redact import Redactor
from backup_engine.repository_guard import LARGEST_PROBE
from backup_engine.requests import InfoRequest, ListArchivesRequest, ListFilesRequest, RepositoryLocation
from backup_engine.results import GarbledOutput, parse_archives
from backup_engine.stream_reader import StreamReader, engine_outcome
from backup_jobs.restore.survey import Survey
from backup_protocol.frames import LARGEST_MESSAGE, SURVEY, frame
from holdfast.restore.to_agent.restore_streams import _survey
from tests.contract.fields import error_of
from tests.support.engines import ENGINES
from tests.support.peak import MIB, growths_of
from tests.support.running import Services
from tests.support.service import PATIENCE, wait_until

BOUND = 64 * MIB
TOO_LARGE = "engine.result_too_large"
ENDLESS = {
    "output": "head -c 3000000 /dev/zero; exec sleep 600",
    "errors": "head -c 3000000 /dev/zero >&2; exec sleep 600",
    "an end that comes at once": "exec head -c 3000000 /dev/zero",
    "output in spite of signals": "trap '' TERM; head -c 3000000 /dev/zero; while :; do sleep 1; done",
}
"""More than the limit of the tests, and then nothing: without the limit, the engine would keep running and its output
would stay on the disk.
"""


@pytest.fixture(scope="module")
def services(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Services]:
    services = Services(tmp_path_factory.mktemp("services"))
    yield services
    services.stop()


def outcome_of(spool: Spool, command: Command) -> Outcome:
    spool.launch(command).wait(PATIENCE)
    wait_until(lambda: spool.settle() is SpoolState.EXITED, what="the end of the run")
    record, reader = spool.exit_record(), StreamReader(spool.err, Redactor(()))
    assert record is not None
    reader.drain(to_the_end=True)
    return engine_outcome(record, reader.accumulator, cancel_requested=False)


def taken_below(folder: Path) -> int:
    """The bytes of all files; other processes may remove some meanwhile."""
    size = 0
    for file in folder.rglob("*"):
        with contextlib.suppress(FileNotFoundError):
            size += file.stat().st_size
    return size


# --- what an engine writes -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("what", ENDLESS)
def test_an_engine_that_never_stops_writing_is_ended_and_its_run_fails(tmp_path: Path, what: str) -> None:
    spool = Spool(tmp_path / "run")
    ended = outcome_of(spool, Command(("/bin/sh", "-c", ENDLESS[what]), {"PATH": os.defpath}, most_output=MIB))
    assert (ended.status, ended.error_key) == ("failed", TOO_LARGE)


def test_an_engine_on_an_ssh_machine_that_never_stops_writing_is_ended(tmp_path: Path) -> None:
    ssh = ("/usr/bin/env", f"HOME={tmp_path}", "/bin/sh", "-c")
    machine = Machine("there", ssh, sys.executable)
    command = Command(("/bin/sh", "-c", ENDLESS["output"]), {"PATH": os.defpath}, machine=machine, most_output=MIB)
    ended = outcome_of(Spool(tmp_path / "run"), command)
    assert (ended.status, ended.error_key) == ("failed", TOO_LARGE)
    wait_until(lambda: taken_below(tmp_path) < 2 * MIB, what="the output to be removed, here and there")


@pytest.mark.parametrize("stream", [1, 2])
def test_an_engine_that_is_only_queried_for_its_repository_is_ended_too(tmp_path: Path, stream: int) -> None:
    """The query for the repository's id, before a run on a repository elsewhere."""
    borg = tmp_path / "borg"
    borg.write_text(f"#!/bin/sh\nhead -c 3000000 /dev/zero >&{stream}; exec sleep 600\n")
    borg.chmod(0o700)
    location = RepositoryLocation("ssh://somewhere/repository", engine_id="0" * 64)
    engine = Borg1Engine(
        EngineProgram(str(borg), "1.4.0", (1, 4, 0), 1), EngineEnvironment(str(tmp_path / "base"), "one"), 1
    )
    command = engine.list_files(location, ListFilesRequest("one"))
    spool = Spool(tmp_path / "run")
    assert outcome_of(spool, command).status in ("failed", "interrupted")
    assert spool.err.stat().st_size <= LARGEST_PROBE + 10_000


def test_results_read_as_a_whole_have_a_smaller_limit_than_streams() -> None:
    engine = Borg1Engine(EngineProgram("/bin/borg", "1.4.0", (1, 4, 0), 1), EngineEnvironment("/base", "one"), 1)
    location = RepositoryLocation("/repository")
    assert engine.list_archives(location, ListArchivesRequest()).most_output == LARGEST_RESULT
    assert engine.info(location, InfoRequest()).most_output == LARGEST_RESULT
    assert engine.list_files(location, ListFilesRequest("one")).most_output == LARGEST_STREAM


FLOOD = """#!/bin/sh
if [ -e "{flag}" ]; then for word in "$@"; do [ "$word" = list ] && head -c 20000000 /dev/zero && exec sleep 600; done; fi
exec "{engine}" "$@"
"""  # noqa: E501


def test_an_endless_list_of_archives_fails_and_leaves_the_index_unchanged(tmp_path: Path, services: Services) -> None:
    flag, program = tmp_path / "flood", tmp_path / "borg"
    program.write_text(FLOOD.format(flag=flag, engine=ENGINES["1.4"]))
    program.chmod(0o755)
    with services.own(HOLDFAST_BORG1=str(program)) as running:
        admin, repository = running.admin, running.new_repository(index_mode="archives")
        assert admin.wait_for_end(admin.start_backup(repository))["status"] == "completed"
        running.wait_until_idle()
        path = f"/api/repositories/{repository['id']}"
        before = admin.get(f"{path}/archives").json()["archives"]
        flag.touch()
        synced = admin.wait_for_end(admin.post(f"{path}/resync").json()["operations"][0])
        assert (synced["status"], synced["error_key"]) == ("failed", TOO_LARGE)
        live = admin.get(f"{path}/archives/live")
        assert error_of(live) == (422, TOO_LARGE)
        assert [one["name"] for one in before] == [
            one["name"] for one in admin.get(f"{path}/archives").json()["archives"]
        ]


# --- JSON ------------------------------------------------------------------------------------------------------------

DOCUMENTS = {
    "lists": b'{"archives": [' + b"[]," * 5_000_000 + b"[]]}",
    "maps": b'{"archives": [' + b'{"a":1},' * 2_000_000 + b"{}]}",
    "numbers": b'{"archives": [' + b"1," * 8_000_000 + b"1]}",
}
PARSED = """
import re
from pathlib import Path
from backup_engine.results import parse_archives
content = Path(sys.argv[1]).read_bytes()
measured(lambda: len(parse_archives(content)))
"""
SURVEYED = """
import io
from pathlib import Path
from backup_agent.restore_stream import RestoreStream
from backup_protocol.frames import SURVEY, frame
content = frame(SURVEY, Path(sys.argv[1]).read_bytes())
measured(lambda: RestoreStream(io.BytesIO(content)).survey().files)
"""


@pytest.mark.parametrize("document", DOCUMENTS)
@pytest.mark.parametrize(("reader", "refusal"), [(PARSED, "GarbledOutput"), (SURVEYED, "LinkCut")])
def test_json_of_many_small_values_does_not_fill_the_memory(
    tmp_path: Path, reader: str, refusal: str, document: str
) -> None:
    (tmp_path / "document").write_bytes(DOCUMENTS[document][:LARGEST_RESULT])
    [(growth, result)] = growths_of(reader, str(tmp_path / "document"))
    assert growth < BOUND, result
    assert str(result).startswith(refusal)


def test_the_longest_accepted_list_of_archives_takes_bounded_memory(tmp_path: Path) -> None:
    archive = {
        **dict.fromkeys(("start", "end", "time"), "2026-11-16T12:00:00.000000"),
        "name": "host-2026-11-16T12:00:00",
        "archive": "host-2026-11-16T12:00:00",
        "barchive": "host",
        "id": "0" * 64,
        "comment": "holdfast:0123456789abcdef",
        "hostname": "host",
        "username": "root",
    }
    size = len(json.dumps({"archives": [archive]}, indent=4))
    count = LARGEST_RESULT // size
    (tmp_path / "document").write_text(json.dumps({"archives": [archive] * count}, indent=4))
    [(growth, result)] = growths_of(PARSED, str(tmp_path / "document"))
    assert result == count > 20_000
    assert growth < 2 * BOUND


def test_a_survey_that_is_too_long_for_the_agent_is_sent_without_its_items() -> None:
    items = [{"path": "\U0001f600" * 60, "type": "-", "size": 1}] * 15_000
    told = _survey(Survey(files=15_000), items)
    assert len(told) < LARGEST_MESSAGE
    assert json.loads(told)["listed"] == []
    few = _survey(Survey(files=1), items[:1])
    assert RestoreStream(io.BytesIO(frame(SURVEY, few))).survey().listed == tuple(items[:1])  # type: ignore[union-attr]


def test_a_survey_above_its_limit_is_not_received() -> None:
    with pytest.raises(LinkCut):
        RestoreStream(io.BytesIO(frame(SURVEY, b'{"files": 1, "size": 1}' + b" " * LARGEST_MESSAGE))).survey()


def test_json_of_very_many_values_is_refused_and_legitimate_json_is_read() -> None:
    with pytest.raises(bounded_json.TooManyValues):
        bounded_json.document(b"[" + b"1," * bounded_json.MOST_VALUES + b"1]")
    with pytest.raises(GarbledOutput):
        parse_archives(b'{"archives": [' + b"{}," * bounded_json.MOST_VALUES + b"{}]}")
    assert bounded_json.document(b'{"a": [1, 2]}') == {"a": [1, 2]}


# --- ssh -------------------------------------------------------------------------------------------------------------


def test_the_far_side_of_a_run_refuses_an_endless_request() -> None:
    started_side = subprocess.Popen(
        [sys.executable, "-I", "-S", remote_run.__file__], stdin=subprocess.PIPE, stdout=subprocess.DEVNULL
    )
    assert started_side.stdin is not None
    with started_side.stdin, contextlib.suppress(BrokenPipeError):
        for _ in range(4 * remote_run.LARGEST_REQUEST // MIB):
            started_side.stdin.write(b"x" * MIB)
    assert started_side.wait(PATIENCE) == 2


def test_the_error_output_of_ssh_is_bounded_on_disk_and_keeps_its_end(tmp_path: Path) -> None:
    place = tmp_path / "said"
    with run.SshErrors(str(place)) as said:
        for _ in range(20):
            subprocess.run(("/usr/bin/head", "-c", "600000", "/dev/zero"), stdout=said.file, check=True)
            said.trim()
            assert place.stat().st_size <= run.LARGEST_SAID
        subprocess.run(("/bin/echo", "Connection refused"), stdout=said.file, check=True)
        assert said.last().endswith(b"Connection refused\n")
        assert len(said.last()) <= run.LONGEST_COMPLAINT
