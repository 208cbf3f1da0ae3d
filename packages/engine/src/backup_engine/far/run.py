"""The near side of a run: runs in place of the engine under the local shim, while the engine runs on another machine.

Run as ``python -I -S run.py REQUEST``. This process writes the engine's output and ends as the engine ended. It
restores a lost connection for as long as the request allows; only before the first contact with the machine, a failed
connection is an error at once. Three files next to the request record what must survive this process: ``.begun`` (the
engine may have been started), ``.ended`` (when and how it ended, and the feeder's records), ``.collected`` (everything
was received, so the far side may have forgotten the run). Other processes create a fourth, ``.cancel``, to stop the
engine.

It imports only the standard library and nothing of this package: it has to start in milliseconds.
"""

from __future__ import annotations

import contextlib
import errno
import hashlib
import json
import os
import select
import shlex
import signal
import struct
import subprocess
import sys
import time

TYPE_CHECKING = False
if TYPE_CHECKING:  # loading it takes almost half as long as starting Python
    from typing import Any, BinaryIO

FRAME = struct.Struct(">cQ")
MARK = b"\0holdfast frames\0"
BLOCK = 1 << 20
LOOK_SECONDS = 0.2
GRACE_SECONDS = 30.0
LONGEST_PAUSE_SECONDS = 30.0
CANCEL_PATIENCE_SECONDS = 600.0
"""How long to look for an engine that should stop on a machine that does not respond."""
KEEPALIVE_SECONDS = 5
SILENCES = 10
"""Number of missing signs of life after which the machine treats the connection as cut. The local ssh gives up later
(`holdfast.execution.ssh`). So an engine that must not outlive its connection has stopped when this side reports the
cut.
"""
NOT_COPIED = 93
MOST_CRASHES = 3
LONGEST_GREETING = 1 << 16
LONGEST_COMPLAINT = 1 << 16
LARGEST_SAID = 1 << 20
"""Limit in bytes for ssh's error stream on disk."""
LARGEST_FRAME = 1 << 20
"""The far side sends frames of at most a quarter of this size."""
UNREADABLE = "The machine sent data that is not part of a run; the engine there may still be running."
SSH_FAILED = 255
INTERRUPTED = 128 + signal.SIGKILL
CANCELLED = 128 + signal.SIGTERM
NOT_FOUND = 127
NO_SPACE = (errno.ENOSPC, errno.EDQUOT)
NOT_EXECUTABLE = (errno.ENOENT, errno.ENOTDIR, errno.EACCES, errno.ENOEXEC, errno.ELOOP, errno.EISDIR)
FOLDER = ".cache/holdfast-shim"
COPY = """
import json, os, sys
os.umask(0o077)
folder = os.path.join(os.path.expanduser("~"), {folder!r}, {version!r})
os.makedirs(folder, exist_ok=True)
entry = os.open(folder, os.O_RDONLY)
for name, text in json.load(sys.stdin).items():
    part = os.path.join(folder, "%s.%d" % (name, os.getpid()))
    with open(part, "w", encoding="utf-8") as file:
        file.write(text)
        file.flush()
        os.fsync(file.fileno())
    os.replace(part, os.path.join(folder, name))
    os.fsync(entry)
"""
"""Each file is synced before the next one, so that a power cut never leaves the mark of a complete copy without it."""
PLAIN_NOTE = b"This machine has no Python 3.9 or newer: the engine runs under plain ssh, and ends if the link is cut.\n"
PLAIN = """
IFS= read -r line || exit 1
BORG_PASSPHRASE=$(printf '%b.' "$line")
BORG_PASSPHRASE=${{BORG_PASSPHRASE%.}}
export BORG_PASSPHRASE {names}
exec 3<&0
(echo {nice} >/proc/self/autogroup) 2>/dev/null
{guard}{enter}{command} </dev/null 3<&- &
child=$!
(
    silences=0
    trap 'silences=0' USR1
    while sleep {word_seconds}; do
        silences=$((silences + 1))
        [ "$silences" -lt {silences} ] || kill -TERM "$child"
    done
) </dev/null >/dev/null 2>&1 3<&- &
silent=$!
(while read -r word; do kill -USR1 "$silent"; done; kill -TERM "$child") <&3 >/dev/null 2>&1 &
watcher=$!
exec 3<&-
wait "$child"
code=$?
kill "$watcher" "$silent" 2>/dev/null
exit "$code"
"""


PLAIN_GUARD = """found=$(sed -n 's/^id *= *\\([0-9a-f]*\\) *$/\\1/p' {config} 2>/dev/null || cat {config}/id 2>/dev/null)
expected={expected}
if [ -n "$found" ] && [ -n "$expected" ] && [ "$found" != "$expected" ]; then
    printf '%s\\n' {refusal} >&2
    exit 2
fi
"""  # noqa: E501
PLAIN_FORGET = """for record in .config/borg .local/share/borg; do
    rm -f {base}/$record/security/"$found"/manifest-timestamp
done
[ ! -f {base}/.cache/borg/"$found"/config ] || sed -i '/^timestamp *=/d' {base}/.cache/borg/"$found"/config
"""
REPLACED = json.dumps(
    {
        "type": "log_message",
        "levelname": "ERROR",
        "name": "backup_engine.repository_guard",
        "msgid": "Guard.RepositoryReplaced",
        "message": "Another repository is at this place.",
    }
)


PYTHON_MISSING = json.dumps(
    {
        "type": "log_message",
        "levelname": "ERROR",
        "name": "backup_engine.repository_guard",
        "msgid": "Guard.PythonMissing",
        "message": "This requires Python on the machine.",
    }
)


class NobodyReads(Exception):
    """The reader of the engine's output is gone."""


class Unreadable(Exception):
    """The machine sends data that does not belong to a run."""


class CancelledBefore(Exception):
    """The engine should stop, and has not been requested to start."""


class Keepalive:
    """Sends signs of life to a machine, even while the engine's output waits for a reader."""

    def __init__(self, link: subprocess.Popen[bytes]) -> None:
        assert link.stdin is not None
        self._descriptor = link.stdin.fileno()

    def start(self) -> None:
        signal.signal(signal.SIGALRM, self.send)
        signal.setitimer(signal.ITIMER_REAL, KEEPALIVE_SECONDS, KEEPALIVE_SECONDS)

    def send(self, *_: object) -> None:
        with contextlib.suppress(BrokenPipeError):
            os.write(self._descriptor, b"HERE\n")

    @staticmethod
    def stop() -> None:
        signal.setitimer(signal.ITIMER_REAL, 0)


class Cancel:
    """Tracks whether the engine was asked to stop."""

    def __init__(self, request: str) -> None:
        self._file = request + ".cancel"
        self._signalled = False
        signal.signal(signal.SIGTERM, self._note)

    def _note(self, *_: object) -> None:
        self._signalled = True

    def is_asked(self) -> bool:
        return self._signalled or os.path.exists(self._file)


class FarRun:
    def __init__(self, place: str, secrets: dict[str, Any]) -> None:
        with open(place, "rb") as file:
            self._request: dict[str, Any] = json.load(file)
        self._place = place
        self._secrets = secrets
        self._cancel = Cancel(place)
        self._asked: dict[str, float] = {}
        self._offsets = {"e": 0, "o": 0}
        self._has_copied = False
        self._ssh_errors = b""
        self._greeted = self._progressed = False
        self._crashes = 0

    def run(self) -> int:
        pause = 0.5
        lost_at: float | None = None
        while True:
            try:
                code = self._follow_once()
            except NobodyReads:
                return self._lost("The reader of the engine's output is gone.", 2)
            except Unreadable:
                return self._lost(UNREADABLE, 2)
            except CancelledBefore:
                return CANCELLED
            if code is not None:
                return code
            if self._request["piped"]:
                return self._lost("The link to the machine was cut.")
            if self._progressed:
                pause = 0.5
            if self._greeted or lost_at is None:
                lost_at = time.monotonic()
            patience = CANCEL_PATIENCE_SECONDS if self._cancel.is_asked() else self._request["patience_seconds"]
            if time.monotonic() - lost_at > patience:
                return self._lost("The machine became unreachable; the engine there may still be running.")
            time.sleep(pause)
            pause = min(pause * 2, LONGEST_PAUSE_SECONDS)

    def _follow_once(self) -> int | None:
        """Follow the run over one connection. Return the exit code if the engine has ended, None if the connection was
        lost.
        """
        self._greeted = self._progressed = False
        with SshErrors(self._place + ".said") as errors:
            try:
                link = subprocess.Popen(
                    [*self._request["ssh"], side_command(self._request["python"])],
                    stdin=subprocess.PIPE,
                    stdout=subprocess.PIPE,
                    stderr=errors.file,
                    start_new_session=True,  # a signal to this process's group must not cut the connection
                )
            except OSError as error:
                return self._lost(f"ssh cannot be run: {error}")
            try:
                end = self._listen(link, errors)
            except BrokenPipeError:
                end = None
            finally:
                Keepalive.stop()
                code = hang_up(link)
            if end is not None:
                return self._exit_code(end)
            self._ssh_errors = errors.last()
        if code == NOT_COPIED and not self._has_copied:
            return self._copy()
        if self._greeted and code not in (0, SSH_FAILED):
            self._crashes += 1
            if self._crashes > MOST_CRASHES:
                return self._lost("The far side of the run fails repeatedly.", 2)
        return None if self._may_have_begun() else self._lost()

    def _listen(self, link: subprocess.Popen[bytes], errors: SshErrors) -> dict[str, Any] | None:
        assert link.stdin is not None
        assert link.stdout is not None
        is_marked, received = False, b""
        while True:
            self._require_no_cancel()
            self._pass_on_cancel(link)
            errors.trim()
            if not select.select([link.stdout], [], [], LOOK_SECONDS)[0]:
                continue
            block = os.read(link.stdout.fileno(), BLOCK)
            if not block:
                return None
            received += block
            if not is_marked:
                is_marked, received = without_greetings(received)
            while is_marked and len(received) >= FRAME.size:
                letter, size = FRAME.unpack_from(received)
                if size > LARGEST_FRAME or letter not in (b"h", b"x", b"e", b"o"):
                    raise Unreadable
                if len(received) < FRAME.size + size:
                    break
                content, received = received[FRAME.size : FRAME.size + size], received[FRAME.size + size :]
                if letter == b"h":
                    self._begin(link)
                elif letter == b"x":
                    end = end_of(content)
                    self._note_end(end)
                    self._collected(link)
                    return end
                else:
                    self._pass_on(letter.decode(), content)

    def _begin(self, link: subprocess.Popen[bytes]) -> None:
        """Send the request. The machine has responded: from now on its engine may be started, even if this process
        ends.
        """
        assert link.stdin is not None
        self._require_no_cancel()
        self._greeted = True
        mark(self._place + ".begun")
        request = {
            "run": self._request["run"],
            "command": self._request["command"],
            "secrets": self._secrets,
            "piped": self._request["piped"],
            "err": self._offsets["e"],
            "out": self._offsets["o"],
            "must_exist": os.path.exists(self._place + ".collected"),
            "silence_seconds": KEEPALIVE_SECONDS * SILENCES,
        }
        link.stdin.write(json.dumps(request).encode() + b"\n")
        link.stdin.flush()
        Keepalive(link).start()
        self._asked.clear()

    def _require_no_cancel(self) -> None:
        """Raise CancelledBefore if the engine should stop and cannot have been started."""
        if self._cancel.is_asked() and not self._may_have_begun():
            raise CancelledBefore

    def _pass_on(self, letter: str, content: bytes) -> None:
        self._progressed = True
        self._offsets[letter] += len(content)
        while content:
            try:
                content = content[os.write(2 if letter == "e" else 1, content) :]
            except BrokenPipeError as error:
                raise NobodyReads from error
            except OSError as error:
                if error.errno not in NO_SPACE:
                    raise
                time.sleep(1.0)  # the engine there is not to blame, and continues

    def _note_end(self, end: dict[str, Any]) -> None:
        """Record when the engine ended there, by the local clock, and the free space there. The first record counts."""
        age = end.get("ended_seconds_ago")
        if age is None or os.path.exists(self._place + ".ended"):
            return
        with open(self._place + ".ended.part", "w", encoding="utf-8") as file:
            kept = {"finished_at": time.time() - max(0.0, float(age)), **space_in(end.get("record"))}
            json.dump({**kept, "exit": exit_in(end.get("record")), "dumps": end.get("dumps")}, file)
        os.replace(self._place + ".ended.part", self._place + ".ended")

    def _collected(self, link: subprocess.Popen[bytes]) -> None:
        assert link.stdin is not None
        mark(self._place + ".collected")
        with contextlib.suppress(BrokenPipeError):
            link.stdin.write(b"DONE\n")
            link.stdin.flush()

    def _pass_on_cancel(self, link: subprocess.Popen[bytes]) -> None:
        assert link.stdin is not None
        if not self._greeted or not self._cancel.is_asked():
            return
        first = self._asked.get("TERM")
        word = "TERM" if first is None else "KILL"
        if word in self._asked or (first is not None and time.monotonic() - first < GRACE_SECONDS):
            return
        self._asked[word] = time.monotonic()
        link.stdin.write(word.encode() + b"\n")
        link.stdin.flush()

    def _may_have_begun(self) -> bool:
        return os.path.exists(self._place + ".begun")

    def _copy(self) -> int | None:
        """Copy the shim to the machine, once per version."""
        self._has_copied = True
        with SshErrors(self._place + ".said") as errors, open(self._place + ".copied", "w+b") as texts:
            os.unlink(texts.name)
            # A file, not a pipe: `communicate` with a time limit does not resume sending when called again.
            texts.write(json.dumps(sources()).encode())
            texts.seek(0)
            done = subprocess.Popen(
                [*self._request["ssh"], shlex.join((self._request["python"], "-I", "-S", "-c", copy_script()))],
                stdin=texts,
                stdout=subprocess.DEVNULL,
                stderr=errors.file,
                start_new_session=True,
            )
            while done.returncode is None:
                with contextlib.suppress(subprocess.TimeoutExpired):
                    done.wait(LOOK_SECONDS)
                errors.trim()
            self._ssh_errors = errors.last()
        if done.returncode == 0:
            return self._follow_once()
        return None if self._may_have_begun() else self._lost()

    def _exit_code(self, end: dict[str, Any]) -> int:
        if end["state"] == "not_started":
            os.write(2, f"The shim did not start on the machine: {end['words']}\n".encode())
            return 2
        if end["state"] != "exited":
            return INTERRUPTED
        record = end["record"]
        if record["exec_error"]:
            number, _, reason = record["exec_error"].partition(" ")
            os.write(2, f"The engine could not be started there: {reason}\n".encode())
            return NOT_FOUND if int(number) in NOT_EXECUTABLE else 2
        return int(record["code"]) if record["signal"] is None else 128 + int(record["signal"])

    def _lost(self, message: str = "", code: int = SSH_FAILED) -> int:
        os.write(2, (self._ssh_errors + message.encode()).strip() + b"\n")
        return code


class SshErrors:
    """The error stream of ssh, stored in a file: a shared connection would keep a pipe open after its first user is
    gone.
    """

    def __init__(self, place: str) -> None:
        self.file: BinaryIO = open(place, "a+b")  # noqa: SIM115 -- closed by __exit__
        self.file.truncate(0)
        self._before = b""

    def __enter__(self) -> SshErrors:
        return self

    def __exit__(self, *_: object) -> None:
        self.file.close()

    def trim(self) -> None:
        """Keep only the end of a stream that has become too long."""
        if os.fstat(self.file.fileno()).st_size > LARGEST_SAID:
            self._before = last_of(self.file)
            self.file.truncate(0)

    def last(self) -> bytes:
        return (self._before + last_of(self.file))[-LONGEST_COMPLAINT:]


def last_of(errors: BinaryIO) -> bytes:
    """The last lines of ssh's output, however much there was."""
    errors.seek(max(0, errors.seek(0, os.SEEK_END) - LONGEST_COMPLAINT))
    return errors.read(LONGEST_COMPLAINT)


def space_in(record: Any) -> dict[str, int]:
    """Free and total bytes where the repository is stored, if the far side has measured them."""
    fields = record if isinstance(record, dict) else {}
    sizes = {name: fields.get(name) for name in ("free_bytes", "total_bytes")}
    return {name: size for name, size in sizes.items() if isinstance(size, int) and 0 <= size < 2**63}


def exit_in(record: Any) -> dict[str, Any]:
    """How the program ended there. This process's exit code does not suffice, as a script may have any exit code."""
    fields = record if isinstance(record, dict) else {}
    numbers = {name: fields.get(name) for name in ("code", "signal")}
    return {
        **{name: number if isinstance(number, int) else None for name, number in numbers.items()},
        "exec_error": str(fields["exec_error"])[:1000] if fields.get("exec_error") else None,
        "timed_out": bool(fields.get("timed_out")),
        "too_much_output": bool(fields.get("too_much_output")),
    }


def end_of(content: bytes) -> dict[str, Any]:
    """Parse the far side's report of the ending. Raise Unreadable unless all required fields are valid."""
    try:
        end: dict[str, Any] = json.loads(content)
        float(end.get("ended_seconds_ago") or 0)
        if end["state"] == "exited":
            record = end["record"]
            number = (record["exec_error"] or "0").partition(" ")[0]
            any(map(int, (number, record["code"] or 0, record["signal"] or 0)))
        elif end["state"] == "not_started":
            str.encode(end["words"])
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise Unreadable from error
    return end


def without_greetings(received: bytes) -> tuple[bool, bytes]:
    """Whether the mark has arrived, and the data after it; before the mark is the output of the account's login
    shell.
    """
    _, mark, frames = received.partition(MARK)
    return bool(mark), frames if mark else received[-LONGEST_GREETING:]


def hang_up(link: subprocess.Popen[bytes]) -> int:
    assert link.stdin is not None
    with contextlib.suppress(BrokenPipeError):
        link.stdin.close()
    try:
        return link.wait(5)
    except subprocess.TimeoutExpired:
        link.kill()
        return link.wait()


def mark(file: str) -> None:
    descriptor = os.open(file, os.O_WRONLY | os.O_CREAT, 0o600)
    os.fsync(descriptor)
    os.close(descriptor)


def sources() -> dict[str, str]:
    """The files to copy to a machine. The last one marks the copy as complete."""
    here = os.path.dirname(os.path.abspath(__file__))
    texts = {}
    copied = (
        "../shim.py",
        "../repository_guard.py",
        "../feed.py",
        "../chunks/narrowed.py",
        "remote_helper.py",
        "remote_run.py",
    )
    for name in copied:
        with open(f"{here}/{name}", encoding="utf-8") as file:
            texts[os.path.basename(name)] = file.read()
    return {**texts, "ready": ""}


def version() -> str:
    return hashlib.sha256(json.dumps(sources(), sort_keys=True).encode()).hexdigest()[:16]


def copy_script() -> str:
    return COPY.format(folder=FOLDER, version=version())


def side_command(python: str) -> str:
    """The command that starts the far side, or ends with NOT_COPIED if a file of it is missing or empty."""
    folder = f'"$HOME"/{FOLDER}/{version()}'
    *copied, ready = sources()
    tests = " && ".join((f"[ -f {folder}/{ready} ]", *(f"[ -s {folder}/{name} ]" for name in copied)))
    script = f"{tests} || exit {NOT_COPIED}; exec {shlex.quote(python)} -I -S {folder}/remote_run.py"
    return f"exec /bin/sh -c {shlex.quote(script)}"


def run_plainly(place: str, secrets: dict[str, Any]) -> int:
    """Run the engine on a machine without Python, as a child of the ssh session; it is stopped when the session
    ends.
    """
    with open(place, "rb") as file:
        request = json.load(file)
    cancel = Cancel(place)
    os.write(2, PLAIN_NOTE)
    if (request["command"].get("guard") or {}).get("older") == "look":
        # Without Python, the record cannot be set aside: the engine would refuse the repository or trust the older
        # state.
        os.write(2, PYTHON_MISSING.encode() + b"\n")
        return 2
    passphrase = next((secret["value"] for secret in secrets.values()), "")
    octal = "".join(f"\\0{byte:03o}" for byte in passphrase.encode("utf-8", "surrogateescape"))
    link = subprocess.Popen(
        [*request["ssh"], f"exec /bin/sh -c {shlex.quote(plain_script(request['command']))}"],
        stdin=subprocess.PIPE,
        start_new_session=True,
    )
    assert link.stdin is not None
    with contextlib.suppress(BrokenPipeError):
        link.stdin.write(octal.encode() + b"\n")
        link.stdin.flush()
    Keepalive(link).start()
    while link.poll() is None:
        if cancel.is_asked() and not link.stdin.closed:
            Keepalive.stop()
            link.stdin.close()
        time.sleep(LOOK_SECONDS)
    return link.returncode if link.returncode >= 0 else 128 - link.returncode


def plain_guard(guard: dict[str, Any] | None, base: str) -> str:
    """The guard's check of the repository's id, and its acceptance of an older state, for machines without Python."""
    if not guard or not guard["path"]:
        return ""
    found = PLAIN_GUARD.format(
        config=shlex.quote(guard["path"] + "/config"),
        expected=shlex.quote(guard["engine_id"] or ""),
        refusal=shlex.quote(REPLACED),
    )
    return found + (PLAIN_FORGET.format(base=base) if guard["older"] == "accept" else "")


def plain_script(command: dict[str, Any]) -> str:
    def word(value: str) -> str:
        return '"$HOME"/' + shlex.quote(value[2:]) if value.startswith("~/") else shlex.quote(value)

    variables = {
        name: value for name, value in command["environment"].items() if not name.startswith("BORG_PASSPHRASE")
    }
    assigned = "\n".join(f"{name}={word(value)}" for name, value in variables.items() if name != "HOME")
    program, *arguments = command["argv"]
    directory = command.get("working_directory")
    script = PLAIN.format(
        names=" ".join(name for name in variables if name != "HOME"),
        word_seconds=KEEPALIVE_SECONDS,
        silences=SILENCES,
        guard=plain_guard(command.get("guard"), word(variables.get("BORG_BASE_DIR", "~/"))),
        enter=f"cd -- {shlex.quote(directory)} || exit 2\n" if directory else "",
        nice=int(command["nice"]),  # also for the session: see the shim
        command=shlex.join(("nice", "-n", str(command["nice"])))
        + " "
        + " ".join((word(program), *map(shlex.quote, arguments))),
    )
    return assigned + script


def main() -> int:
    descriptor = int(os.environ["HOLDFAST_FAR_SECRETS"])
    received = b""
    while block := os.read(descriptor, BLOCK):
        received += block
    os.close(descriptor)
    place, secrets = sys.argv[1], json.loads(received)
    with open(place, "rb") as file:
        python = json.load(file)["python"]
    return run_plainly(place, secrets) if python is None else FarRun(place, secrets).run()


def main_that_never_warns() -> int:
    """Run `main`, and report errors so that they do not look like an engine's warning, which is an exit code of 1.

    Once the engine may be running there, this process kills itself: its parent sees that it lost the run, and launches
    it again.
    """
    try:
        return main()
    except Exception as error:  # noqa: BLE001 - all of them
        if os.path.exists(sys.argv[1] + ".begun"):
            os.kill(os.getpid(), signal.SIGKILL)
        os.write(2, f"The run on the machine cannot be begun: {error}\n".encode("utf-8", "replace"))
        return 2


if __name__ == "__main__":
    sys.exit(main_that_never_warns())
