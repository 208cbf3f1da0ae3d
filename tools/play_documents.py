"""Run the shell blocks of documents exactly as printed, in order, and check their results.

    tools/play_documents.py [--server URL] FILE...

A block that begins with ```sh is run line by line in one shell per file, on a terminal, in the current folder. Prompts
are answered. The run ends with code 1 at the first line that fails, or whose output contains `null`, an error of jq or
a traceback. A block that begins with ```sh example is not run: NOT_PLAYED gives the reason. The service must be running
at --server, whose address replaces the one printed in the documents. Uses only the standard library.
"""

from __future__ import annotations

import argparse
import fcntl
import os
import pty
import re
import select
import struct
import subprocess
import sys
import termios
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

PRINTED_SERVER = "http://127.0.0.1:8080"
PASSWORD = "a long password of mine"  # noqa: S105 -- of a service that lives for minutes
PASSPHRASE = "keep a copy of me elsewhere"  # noqa: S105
FIRST_PASSWORD = Path(".data/initial-admin-password")
AS_BEFORE = "the answer before"
COLUMNS = 110
LONGEST_SECONDS = 900
NOT_PLAYED = {
    ("README.md", "make run"): "make run serves until it is stopped; the tour below it needs it running",
    ("docs/develop.md", "make setup"): "whoever plays the documents has set up",
    ("docs/develop.md", "make test"): "it is the test run that plays this",
    ("docs/operate.md", "holdfast serve --port 8080 --data-dir /var/lib/holdfast"): "serves until it is stopped",
    ("docs/operate.md", "api=http://127.0.0.1:8080/api"): "needs another machine with ssh; tests/real/machines",
    ("docs/operate.md", "url=http://127.0.0.1:8080"): "needs a WebDAV server; tests/contract/mirror",
    ("docs/operate.md", 'curl -s -H "$auth" -H "$json" $url/api/repositories/ -d'): "needs a WebDAV server",
    ("docs/operate.md", "apt-get install gcc"): "installs engine 2 for good",
    ("docs/operate.md", "curl -X POST $URL/api/repositories/"): "needs engine 2; tests/contract/engine2",
    ("docs/operate.md", "curl $URL/api/repositories/7/deleted"): "needs engine 2; tests/contract/engine2",
    ("docs/agents.md", "curl -fsSL"): "runs on another machine; tests/real/agent",
    ("docs/restore.md", "curl -s -H \"$auth\" -H 'Content-Type: application/json' $url/api/restore-grants"): (
        "needs an agent and another user; tests/attacks/test_restore_targets.py"
    ),
    ("docs/restore.md", "gio mount"): "needs file managers; tests/contract/archives/test_webdav.py runs rclone",
    ("docs/schedules.md", "holdfast "): "repositories of several machines; tests/contract/schedules, tests/real",
    ("docs/schedules.md", "curl "): "the same with curl; tests/contract/schedules",
    ("docs/dumps.md", "curl "): "needs a database server; tests/real/dumps",
    ("docs/dumps.md", "holdfast databases "): "needs a database server; tests/real/dumps",
    ("docs/dumps.md", "holdfast restore "): "needs a database server; tests/real/dumps loads each kind of dump",
    ("docs/cli.md", "holdfast "): "one line of each kind; tests/real/test_command_line.py runs them",
    ("docs/notifications.md", "curl -sS"): "needs receivers of messages",
    ("docs/alarms.md", "holdfast alarms list"): "needs an alarm, which takes days; tests/contract/alarms",
    ("docs/alarms.md", "curl -X PUT"): "names a repository by its number; tests/contract/alarms",
    ("docs/metrics.md", "holdfast account create-token"): "makes a token that nobody uses; tests/contract/metrics",
    ("docs/metrics.md", "TOKEN="): "the same with curl; tests/contract/metrics",
}
"""Blocks marked as examples: the file and the beginning of the first line, with the reason why the block is not run."""

PROMISED = {"holdfast search letters anna": "anna.txt"}
"""Commands that succeed only some seconds after the previous line: the beginning of the command, and a word of its
output. The player waits for it, as a person would.
"""

BROKEN = {
    re.compile(r"^null$", re.MULTILINE): "printed null",
    re.compile(r"^jq: ", re.MULTILINE): "jq failed",
    re.compile(r"^parse error: ", re.MULTILINE): "jq failed",
    re.compile(r"^Traceback \(most recent call last\)", re.MULTILINE): "ended with a traceback",
    re.compile(r'"detail": ?\{"?key'): "was answered with an error",
    re.compile(r": command not found$", re.MULTILINE): "uses a program that is not there",
}


@dataclass(frozen=True)
class Block:
    file: str
    line: int
    is_played: bool
    text: str

    @property
    def first_line(self) -> str:
        return next((line for line in self.text.splitlines() if line and not line.startswith("#")), "")


@dataclass
class Played:
    command: str
    code: int
    output: str


@dataclass
class Shell:
    """A shell on its own terminal."""

    answers: dict[re.Pattern[str], str]
    environment: dict[str, str] = field(default_factory=dict)
    _last: str = ""

    def play(self, commands: list[str]) -> Iterator[Played]:
        """Run the commands one by one, and yield each with its output and exit code."""
        mark = f"@{os.urandom(8).hex()}@"
        script = "".join(
            f"{waiting_for_promise(command)}{command}\nprintf '{mark}%d{mark}\\n' $?\n" for command in commands
        )
        master = self._start(script)
        rest = ""
        try:
            for command in commands:
                output, code, rest = self._until(master, mark, rest)
                yield Played(command, code, shown(output))
        finally:
            os.close(master)

    def _start(self, script: str) -> int:
        child, master = pty.fork()
        if child == 0:
            environment = {**os.environ, "TERM": "dumb", "COLUMNS": str(COLUMNS), **self.environment}
            os.execvpe("bash", ["bash", "--noprofile", "--norc", "-c", script], environment)
        fcntl.ioctl(master, termios.TIOCSWINSZ, struct.pack("HHHH", 40, COLUMNS, 0, 0))
        return master

    def _until(self, master: int, mark: str, text: str) -> tuple[str, int, str]:
        """Read until a command has ended, and answer its prompts."""
        deadline = time.monotonic() + LONGEST_SECONDS
        answered = 0
        while not (ended := re.search(f"{mark}(\\d+){mark}\r?\n", text)):
            if time.monotonic() > deadline:
                raise TimeoutError(f"not done within {LONGEST_SECONDS} s; so far:\n{shown(text)}")
            if not select.select([master], [], [], 1)[0]:
                continue
            try:
                read = os.read(master, 65536)
            except OSError:  # the shell has ended
                read = b""
            if not read:
                raise EOFError(f"the shell ended early:\n{shown(text)}")
            text += read.decode("utf-8", "replace")
            for question, answer in self.answers.items():
                if found := question.search(text, answered):
                    answered = found.end()
                    os.write(master, f"{self._answer(answer)}\n".encode())
                    break
        return text[: ended.start()], int(ended[1]), text[ended.end() :]

    def _answer(self, answer: str) -> str:
        if answer == str(FIRST_PASSWORD):
            answer = FIRST_PASSWORD.read_text().strip()
        if answer != AS_BEFORE:
            self._last = answer
        return self._last


ANSWERS = {
    re.compile(r"User ?name[^\n]*: $", re.IGNORECASE): "",
    re.compile(r"Repeat[^\n]*: $"): AS_BEFORE,
    re.compile(r"New password[^\n]*: $"): PASSWORD,
    re.compile(r"[Pp]assphrase[^\n]*: $"): PASSPHRASE,
    re.compile(r"(?<!New )[Pp]assword[^\n]*: $"): str(FIRST_PASSWORD),
}


def shown(output: str) -> str:
    """The output as a terminal would finally show it: without overwritten parts and colours."""
    plain = re.sub(r"\x1b(\[[0-9;?]*[A-Za-z]|[()][A-Z0-9])", "", output).replace("\r\n", "\n")
    return "\n".join(line.rsplit("\r", 1)[-1].rstrip() for line in plain.splitlines()).strip("\n")


def blocks_of(path: Path, name: str) -> list[Block]:
    """The shell blocks of a document."""
    found: list[Block] = []
    lines = path.read_text().splitlines()
    for number, line in enumerate(lines):
        if fence := re.fullmatch(r"( *)```sh( example)?", line):
            indent = fence[1]
            end = lines.index(f"{indent}```", number + 1)
            text = "\n".join(inside.removeprefix(indent) for inside in lines[number + 1 : end])
            found.append(Block(name, number + 1, not fence[2], text))
        elif line.lstrip().startswith("```sh"):
            raise SystemExit(f"{name}:{number + 1}: a block begins with ```sh or ```sh example, not with {line}")
    return found


def commands_of(text: str) -> list[str]:
    """The commands of a block: its lines, joined while the shell would ask for more."""
    commands: list[str] = []
    pending = ""
    for line in text.splitlines():
        if not pending and (not line.strip() or line.startswith("#")):
            continue
        pending = f"{pending}\n{line}" if pending else line
        if not pending.endswith("\\") and _is_whole(pending):
            commands.append(pending)
            pending = ""
    if pending:
        raise SystemExit(f"not a whole command: {pending}")
    return commands


def _is_whole(text: str) -> bool:
    return subprocess.run(["bash", "-n", "-c", text], capture_output=True, check=False).returncode == 0


def promise_of(command: str) -> str | None:
    return next((word for start, word in PROMISED.items() if command.startswith(start)), None)


def waiting_for_promise(command: str) -> str:
    """Shell lines that wait silently until a command finds what it should find."""
    word = promise_of(command)
    if word is None:
        return ""
    plain = command.partition(" #")[0]
    return f"for try in $(seq 300); do {plain} 2>&1 | grep -q '{word}' && break; sleep 1; done\n"


def without_a_reason(blocks: list[Block]) -> list[str]:
    """Examples that are not listed in NOT_PLAYED."""
    return [
        f"{block.file}:{block.line}"
        for block in blocks
        if not block.is_played
        and not any(block.file == file and block.first_line.startswith(start) for file, start in NOT_PLAYED)
    ]


def complaint_about(played: Played) -> str | None:
    if played.code != 0:
        return f"ended with code {played.code}"
    if (word := promise_of(played.command)) and word not in played.output:
        return f"did not find {word}"
    return next((words for pattern, words in BROKEN.items() if pattern.search(played.output)), None)


def play(path: Path, name: str, server: str) -> list[Played]:
    """Run a document. Raise SystemExit at the first line that fails."""
    blocks = blocks_of(path, name)
    if bare := without_a_reason(blocks):
        raise SystemExit(f"examples that are not in NOT_PLAYED: {', '.join(bare)}")
    text = "\n".join(block.text for block in blocks if block.is_played).replace(PRINTED_SERVER, server)
    done: list[Played] = []
    for played in Shell(ANSWERS, {"HOLDFAST_SERVER": server, "PASSWORD": PASSWORD}).play(commands_of(text)):
        print(f"$ {played.command}\n{played.output}", flush=True)
        if complaint := complaint_about(played):
            raise SystemExit(f"{name}: this line {complaint}:\n{played.command}")
        done.append(played)
    return done


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--server", default=PRINTED_SERVER, help="Address of the service.")
    parser.add_argument("files", nargs="+", type=Path, metavar="FILE")
    arguments = parser.parse_args()
    lines = 0
    for file in arguments.files:
        print(f"=== {file}", flush=True)
        lines += len(play(file, str(file), arguments.server))
    print(f"=== {lines} lines played, all of them well")


if __name__ == "__main__":
    sys.exit(main())
