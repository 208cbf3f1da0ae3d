"""Run a script once under the shim and report how it ended. It is never started a second time."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from backup_engine.causes import SENTENCES, UNREACHABLE
from backup_engine.command import Command, Machine, Script, Secret
from backup_engine.environment import SEARCH_PATH
from backup_engine.process import ExitRecord
from backup_engine.stream_reader import printable
from backup_jobs.endings import Completed, Ended, Failed, Stopped
from backup_jobs.host import Cancelled, Host, Interrupted
from backup_protocol import ScriptBlock

STEP = "script"
DECLINED_CODE = 75
"""`EX_TEMPFAIL`: a script that runs before a backup exits with it to skip the backup this time."""
MOST_OUTPUT = 8 * 1024 * 1024

FAILED = "scripts.failed"
TIMED_OUT = "scripts.timed_out"
TOO_MUCH_OUTPUT = "scripts.too_much_output"
NOT_STARTED = "scripts.not_started"
INTERRUPTED = "scripts.interrupted"
DECLINED = "scripts.declined"
INTERRUPTED_SENTENCE = (
    "The script was interrupted; it is unknown how far it got. It is not run again automatically; check its machine."
)


def command_of(
    block: ScriptBlock,
    secrets: Mapping[str, str],
    machine: Machine | None = None,
    installed: Path | None = None,
) -> Command:
    """Build the command that runs a script with its secret variables. An installed script runs exactly as its owner
    wrote it.

    The shim adds the home folder of the user that the script runs as.
    """
    interpreter, arguments = (block.interpreter, block.arguments) if installed is None else ((), ())
    shown = block.name if installed is None else str(installed)
    return Command(
        argv=(*interpreter, shown, *arguments),
        environment={"PATH": SEARCH_PATH, "LANG": "C.UTF-8", "LC_ALL": "C.UTF-8", **block.variables},
        secrets={name: Secret(value, "environment") for name, value in secrets.items()},
        machine=machine,
        most_output=MOST_OUTPUT,
        script=Script(
            len(interpreter),
            None if installed is not None else block.content or "",
            block.timeout_seconds,
            str(installed) if installed is not None else None,
        ),
    )


def execute(host: Host, block: ScriptBlock, command: Command) -> Ended:
    """Run the script, or find it again.

    A script that the host may have run before it lost its records is not run again.
    """
    if host.ran_before and not host.has_begun(STEP):
        return Failed(INTERRUPTED, INTERRUPTED_SENTENCE)
    try:
        step = host.script_step(STEP, command)
    except Interrupted:
        return Failed(INTERRUPTED, INTERRUPTED_SENTENCE)
    except Cancelled:
        return Stopped()
    if not step.was_reached:
        return Stopped() if step.was_cancelled else Failed(UNREACHABLE, SENTENCES[UNREACHABLE])
    return ended(block, step.exit, was_cancelled=step.was_cancelled)


def ended(block: ScriptBlock, record: ExitRecord, *, was_cancelled: bool) -> Ended:
    """Turn the ending of the script's process into an ending of the job."""
    details: dict[str, Any] = {"exit_code": record.code, "signal": record.signal}
    if record.exec_error is not None:
        reason = printable(record.exec_error.partition(" ")[2] or record.exec_error)
        return Failed(NOT_STARTED, f"The script could not be started: {reason}", details={"exit_code": None})
    if record.timed_out:
        sentence = f"The script took longer than {block.timeout_seconds} seconds and was stopped."
        return Failed(TIMED_OUT, sentence, record.code, details)
    if record.too_much_output:
        sentence = f"The script printed more than {MOST_OUTPUT} bytes and was stopped."
        return Failed(TOO_MUCH_OUTPUT, sentence, None, details)
    if record.code == 0:
        return Completed(0, details=details)
    if was_cancelled:
        return Stopped(record.code, details=details)
    if record.code == DECLINED_CODE and block.event == "before":
        return Failed(DECLINED, "The script declined: there is nothing to back up this time.", DECLINED_CODE, details)
    if record.signal is not None:
        return Failed(FAILED, f"The script was ended by signal {record.signal}.", None, details)
    return Failed(FAILED, f"The script ended with exit code {record.code}.", record.code, details)
