"""Running scripts: their environment, their output and their exit codes."""

import os
import stat
from contextlib import suppress
from pathlib import Path

import pytest

from tests.contract.fields import error_of
from tests.contract.scripts.written import URL, Written
from tests.support.service import wait_until


def test_the_log_has_both_output_streams_in_the_order_written(written: Written) -> None:
    script = written.new("echo one; echo two >&2; printf 'three\\tx\\033[31m'; printf '\\377\\n'; exit 0\n")

    ended, lines = written.run(script)

    assert (ended["status"], ended["kind"], ended["type"], ended["category"]) == (
        "completed",
        "script_execution",
        "script_execution",
        "script",
    )
    assert lines == ["one", "two", "three\tx\\x1b[31m\\xff"]
    assert ended["detail"] == {
        "script_id": script["id"],
        "script_name": script["name"],
        "version": 1,
        "where": "service",
        "event": "manual",
        "exit_code": 0,
        "signal": None,
    }


def test_the_environment_is_complete_and_contains_nothing_of_the_service(written: Written) -> None:
    script = written.new("env | sort\n", parameters=[{"name": "Level", "type": "integer"}, {"name": "unset"}])
    repository = written.running.new_repository(name=written.running.new_name("a b;$(id)\n"))

    ended, lines = written.run(script, repository_id=repository["id"], parameters={"Level": 3})

    assert ended["status"] == "completed", lines
    found = dict(line.partition("=")[::2] for line in lines if "=" in line)
    assert found["HOLDFAST_EVENT"] == "manual"
    assert found["HOLDFAST_PARAM_LEVEL"] == "3"
    assert found["HOLDFAST_RUN_ID"] == ended["run_id"]
    assert found["HOLDFAST_OPERATION_ID"] == str(ended["id"])
    assert (found["HOLDFAST_REPOSITORY_ID"], found["HOLDFAST_REPOSITORY_PATH"]) == (
        str(repository["id"]),
        repository["path"],
    )
    assert found["HOLDFAST_REPOSITORY_NAME"].startswith("a b;$(id)")
    assert found["HOLDFAST_SCHEDULE_ID"] == found["HOLDFAST_RESULT"] == ""
    plain = {"PATH", "HOME", "LANG", "LC_ALL", "PWD", "OLDPWD", "_", "SHLVL"}
    assert {name for name in found if not name.startswith("HOLDFAST_")} <= plain
    assert not [name for name in found if "PASS" in name or "SECRET" in name or "DATA_DIR" in name]


def test_the_script_is_a_private_file_and_runs_in_an_empty_private_folder(written: Written) -> None:
    script = written.new('stat -c %a "$0"; ls -A | wc -l; stat -c %a .\n')

    _, lines = written.run(script)

    assert [line.strip() for line in lines] == ["700", "0", "700"]


def test_interpreter_and_arguments_are_used_literally(written: Written) -> None:
    words = ["a b", "$HOME", "; false", ""]
    script = written.new("import sys\nprint(sys.argv[1:])\n", interpreter=["/usr/bin/env", "python3"], arguments=words)

    ended, lines = written.run(script)

    assert ended["status"] == "completed", lines
    assert lines == [repr(words)]


@pytest.mark.parametrize(
    ("content", "key", "code", "signal"),
    [
        ("exit 7\n", "scripts.failed", 7, None),
        ("exit 75\n", "scripts.failed", 75, None),
        ("kill -9 $$\n", "scripts.failed", None, 9),
    ],
)
def test_any_exit_other_than_0_is_a_failure_with_its_code_or_signal(
    written: Written, content: str, key: str, code: int | None, signal: int | None
) -> None:
    ended, _ = written.run(written.new(content))

    assert (ended["status"], ended["error_key"]) == ("failed", key)
    assert (ended["detail"]["exit_code"], ended["detail"]["signal"]) == (code, signal)


def test_the_error_names_a_missing_interpreter(written: Written) -> None:
    ended, _ = written.run(written.new("true\n", interpreter=["/nowhere/at/all"]))

    assert (ended["status"], ended["error_key"]) == ("failed", "scripts.not_started")
    assert "/nowhere/at/all" in ended["error_message"]


def test_a_script_that_times_out_is_stopped_with_its_child_processes(written: Written) -> None:
    mark = written.running.new_path("still-there")
    content = f"sleep 1000 & echo $! > {mark}\nwait\n"
    ended, _ = written.run(written.new(content, timeout_seconds=1))

    assert (ended["status"], ended["error_key"]) == ("failed", "scripts.timed_out")
    assert is_gone(int(mark.read_text()))


def test_leftover_processes_are_ended_except_those_in_their_own_session(written: Written) -> None:
    left, daemon = written.running.new_path("left"), written.running.new_path("daemon")
    content = f"sleep 1000 & echo $! > {left}\nsetsid sh -c 'echo $$ > {daemon}; exec sleep 1000' &\n"
    content += f"while [ ! -s {daemon} ]; do sleep 0.05; done\n"

    ended, _ = written.run(written.new(content))

    assert ended["status"] == "completed"
    assert is_gone(int(left.read_text()))
    number = int(daemon.read_text())
    assert Path(f"/proc/{number}/cmdline").read_bytes().startswith(b"sleep")
    os.kill(number, 9)


def test_a_script_with_endless_output_is_stopped(written: Written) -> None:
    ended, _ = written.run(written.new("exec yes $(printf %01000d 0)\n", timeout_seconds=600))

    assert (ended["status"], ended["error_key"]) == ("failed", "scripts.too_much_output")


def test_a_running_script_can_be_cancelled(written: Written) -> None:
    mark = written.running.new_path("started")
    number = written.start(written.new(f"touch {mark}; exec sleep 1000\n"))
    wait_until(mark.exists, what="the script has started")

    assert written.admin.post(f"/api/operations/{number}/cancel").status_code == 200

    ended = written.admin.wait_for_end(number)
    assert (ended["status"], ended["detail"]["signal"]) == ("cancelled", 15)


def test_secret_parameters_reach_only_the_script(written: Written) -> None:
    secret = "the-very-secret-password"
    script = written.new(
        'echo "I know $HOLDFAST_PARAM_PASSWORD."; [ "$HOLDFAST_PARAM_PASSWORD" = the-very-secret-password ]\n',
        parameters=[{"name": "password", "secret": True, "required": True}],
    )
    missing = written.admin.post(f"{URL}/{script['id']}/run", json={})
    assert error_of(missing) == (422, "scripts.bad_parameter")

    ended, lines = written.run(script, parameters={"password": secret})

    assert (ended["status"], lines) == ("completed", ["I know ***."])
    assert secret not in str(ended)
    data = written.running.process.data_dir
    for folder in ("logs", "spool"):
        for place, _, files in os.walk(data / folder):
            for name in files:
                with suppress(FileNotFoundError):  # files of ended operations are being removed
                    assert secret.encode() not in Path(place, name).read_bytes(), name


@pytest.mark.parametrize(
    "given", [{"unknown": "x"}, {"level": "three"}, {"level": True}, {"flag": "perhaps"}, {"word": 5}]
)
def test_parameters_that_do_not_match_the_declaration_are_refused(written: Written, given: dict[str, object]) -> None:
    declared = [{"name": "level", "type": "integer"}, {"name": "flag", "type": "boolean"}, {"name": "word"}]
    script = written.new("true\n", parameters=declared)

    answer = written.admin.post(f"{URL}/{script['id']}/run", json={"parameters": given})

    assert error_of(answer) == (422, "scripts.bad_parameter")


def test_a_queued_run_keeps_the_version_it_was_queued_with(written: Written) -> None:
    gate = written.running.new_path("gate")
    script = written.new(f"while [ ! -e {gate} ]; do sleep 0.05; done; echo one\n")
    numbers = [written.start(script) for _ in range(6)]

    written.change(script, content="echo two\n")
    gate.touch()

    for number in numbers:
        assert written.admin.wait_for_end(number)["detail"]["version"] == 1
        assert written.admin.log_lines(number)[-1] == "one"
    assert written.run(script)[1] == ["two"]


def test_a_script_with_an_active_run_cannot_be_deleted(written: Written) -> None:
    gate = written.running.new_path("gate")
    script = written.new(f"while [ ! -e {gate} ]; do sleep 0.05; done\n")
    number = written.start(script)

    refused = written.admin.delete(f"{URL}/{script['id']}")

    assert error_of(refused) == (409, "scripts.in_use")
    assert refused.json()["detail"]["params"]["operation_ids"] == [number]
    gate.touch()
    written.admin.wait_for_end(number)


def test_a_finished_run_leaves_nothing_in_the_spool(written: Written) -> None:
    ended, _ = written.run(written.new("true\n"))

    spool = written.running.process.data_dir / "spool"
    wait_until(lambda: not (spool / str(ended["id"])).exists(), what="the spool is removed")
    assert stat.S_IMODE(spool.stat().st_mode) & 0o077 == 0


def is_gone(pid: int) -> bool:
    """Whether the process has ended, even if its parent has not reaped it yet."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] == "Z"
    except FileNotFoundError:
        return True
