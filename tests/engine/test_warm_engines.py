"""Most tests run engines that are forked from a loaded one. To their callers they behave like the engine's program."""

import os
import signal
import subprocess
from pathlib import Path

import pytest

from backup_engine.far.remote_helper import interpreter_of
from tests.support.engines import ENGINE_2, ENGINES
from tests.support.gate import FLAG, Gate
from tests.support.service import wait_until
from tests.support.warm_engines import LOADED_WITH, warm_command, warm_program

PROGRAMS = {**ENGINES, **({"2": ENGINE_2} if ENGINE_2 is not None else {})}
pytestmark = pytest.mark.skipif(len(warm_command(ENGINES["1.4"])) == 1, reason="there is no compiler")


def environment(folder: Path) -> dict[str, str]:
    return {
        **LOADED_WITH,
        "PATH": os.environ["PATH"],
        "HOME": str(folder),
        "BORG_BASE_DIR": str(folder),
        "BORG_HOST_ID": "the host of this test",
        "BORG_SELFTEST": "disabled",
        "BORG_UNKNOWN_UNENCRYPTED_REPO_ACCESS_IS_OK": "yes",
    }


def run(command: list[str], folder: Path, *arguments: str) -> tuple[int, str, str]:
    ended = subprocess.run(
        [*command, *arguments], env=environment(folder), cwd=folder, capture_output=True, text=True, check=False
    )
    return ended.returncode, ended.stdout, ended.stderr


@pytest.mark.parametrize("series", PROGRAMS)
def test_a_warm_engine_prints_and_exits_like_the_program(series: str, tmp_path: Path) -> None:
    program = PROGRAMS[series]

    for arguments in (("--version",), ("delete", "there is none"), ("nonsense",), ("create", "--help")):
        assert run(warm_command(program), tmp_path, *arguments) == run([str(program)], tmp_path, *arguments)


def test_a_signal_reaches_a_warm_engine_and_a_kill_ends_it_immediately(tmp_path: Path) -> None:
    command, repository = warm_command(ENGINES["1.4"]), tmp_path / "repository"
    assert run(command, tmp_path, "init", "-e", "none", str(repository))[0] == 0

    for number in (signal.SIGTERM, signal.SIGKILL):
        gate = Gate(tmp_path / f"gate-{number}")
        engine = subprocess.Popen(
            [*command, "create", FLAG, f"{repository}::{number}", str(gate.path)],
            env=environment(tmp_path),
            stderr=subprocess.DEVNULL,
        )
        gate.wait_until_reached()
        assert holder(repository).startswith("the host of this test")
        engine.send_signal(number)
        assert engine.wait() == (-signal.SIGKILL if number == signal.SIGKILL else 143)
        wait_until(lambda gate=gate: has_no_reader(gate), what="the engine is gone")
        gate.forget()


@pytest.mark.parametrize("series", PROGRAMS)
def test_a_warm_program_behaves_like_the_program_and_reveals_the_engines_python(series: str, tmp_path: Path) -> None:
    program = PROGRAMS[series]
    warm = warm_program(program)
    asked = ("-c", "import borg, sys; print(borg.__file__, sys.executable)")

    for arguments in (("--version",), ("delete", "there is none"), ("nonsense",)):
        assert run([str(warm)], tmp_path, *arguments) == run([str(program)], tmp_path, *arguments)
    real, shown = interpreter_of(str(program)), interpreter_of(str(warm))
    assert real is not None
    assert shown is not None
    assert run(shown, tmp_path, *asked) == run(real, tmp_path, *asked)


@pytest.mark.parametrize("series", PROGRAMS)
def test_a_warm_program_is_forked_unless_its_settings_are_read_while_the_engine_loads(
    series: str, tmp_path: Path
) -> None:
    known = environment(tmp_path)

    for variables, is_forked in (({}, True), ({"BORG_WORKAROUNDS": "basesyncfile"}, False)):
        engine = subprocess.Popen(
            [warm_program(PROGRAMS[series]), "debug", "info"],
            env={**known, **variables},
            stdout=subprocess.PIPE,
            text=True,
        )
        told = engine.communicate()[0]
        assert (f"PID: {engine.pid} " not in told) == is_forked, told


@pytest.mark.parametrize("series", PROGRAMS)
def test_a_fork_prints_the_version_even_in_the_bare_environment_of_a_starting_service(
    series: str, tmp_path: Path
) -> None:
    started = tmp_path / "started"
    (tmp_path / "sitecustomize.py").write_text(f"open({str(started)!r}, 'w').close()")  # read by a new interpreter
    bare = {"PATH": os.environ["PATH"], "LANG": "C.UTF-8", "HOME": str(tmp_path), "PYTHONPATH": str(tmp_path)}

    for command in (warm_command(PROGRAMS[series]), [str(warm_program(PROGRAMS[series]))]):
        told = subprocess.run([*command, "--version"], env=bare, capture_output=True, text=True, check=True).stdout
        assert told == run([str(PROGRAMS[series])], tmp_path, "--version")[1]
        assert not started.exists()
    other = {**bare, "BORG_WORKAROUNDS": "basesyncfile"}
    subprocess.run([*command, "debug", "info"], env=other, capture_output=True, check=False)
    assert started.exists(), "other commands need an environment like that of the loaded engine"


@pytest.mark.parametrize("series", ENGINES)
def test_a_fork_without_the_id_of_a_host_holds_its_locks_under_the_name_of_this_machine(
    series: str, tmp_path: Path
) -> None:
    program, repository = ENGINES[series], str(tmp_path / "repository")
    variables = {name: value for name, value in environment(tmp_path).items() if name != "BORG_HOST_ID"}
    assert run(warm_command(program), tmp_path, "init", "-e", "none", repository)[0] == 0

    machines = []
    for command in ([str(program)], warm_command(program)):
        engine = subprocess.Popen(
            [*command, "with-lock", repository, "ls", f"{repository}/lock.exclusive"],
            env=variables,
            stdout=subprocess.PIPE,
            text=True,
        )
        machine, _, process = engine.communicate()[0].rpartition(".")
        assert process.startswith(f"{engine.pid}-") == (len(command) == 1), process
        machines.append(machine.partition("@")[0])
    assert machines[0] == machines[1] != ""


def test_a_warm_engine_uses_the_requested_kind_of_exit_codes(tmp_path: Path) -> None:
    missing = ("list", str(tmp_path / "there is none"))
    ended = [
        subprocess.run(
            [*warm_command(ENGINES["1.4"]), *missing],
            env={**environment(tmp_path), "BORG_EXIT_CODES": codes},
            stderr=subprocess.DEVNULL,
            check=False,
        ).returncode
        for codes in ("modern", "legacy")
    ]

    assert ended == [13, 2]


@pytest.mark.skipif(ENGINE_2 is None, reason="engine 1 has no such file")
def test_a_fork_reads_the_settings_of_its_own_folder(tmp_path: Path) -> None:
    program, missing = PROGRAMS["2"], ("-r", str(tmp_path / "there is none"), "repo-list")
    settings = tmp_path / ".config" / "borg" / "default.yaml"
    settings.parent.mkdir(parents=True)

    for content, is_json in (("", False), ("log_json: true\n", True)):
        settings.write_text(content)
        for engine in (warm_program(program), program):
            told = run([str(engine)], tmp_path, *missing)
            assert told[0] == 13
            assert told[2].startswith("{") == is_json, told


def holder(repository: Path) -> str:
    """The holder of the lock: the name of a file, made of host, process and thread."""
    [name] = [entry.name for entry in (repository / "lock.exclusive").iterdir()]
    return name


def has_no_reader(gate: Gate) -> bool:
    """Whether no process has the pipe open for reading any more."""
    assert gate._descriptor is not None
    try:
        os.write(gate._descriptor, b".")
    except BrokenPipeError:
        return True
    return False
