"""A real BorgBackup behind a slow script that prints numbered lines and records what it does.

The notes are evidence independent of the service: how often the engine was started for an operation, which lines it has
printed, and whether two engines ever used a repository at the same time. For the latter, each engine process locks its
repository's lane file for as long as it lives, however it ends; a second one that finds it locked records that.

The name of the last source folder selects how a backup is paced:

==========  ==========================================================================================================
`quick`     three lines at once, then the engine
`exec`      many lines with pauses, then the script becomes the engine
`around`    lines with pauses, the engine as a child, more lines with pauses: a kill then finds the archive created
`stubborn`  like `exec`, but termination signals are ignored while the lines are printed
`held`      like `around`, but it keeps printing lines and does not start the engine until it is let go
`deaf`      like `held`, but termination signals are ignored meanwhile
`made`      like `around`, but it keeps printing lines after the engine and does not end until it is let go
==========  ==========================================================================================================
"""

import os
import re
from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from tests.support.warm_engines import warm_program

PACES = ("quick", "exec", "around", "stubborn")
HELD = ("held", "deaf", "made")
LINE = re.compile(r"line (?P<run>\S+) (?P<number>\d+)")

SCRIPT = r"""#!/bin/sh
export BORG_SELFTEST=disabled
[ "$1" = --version ] && exec "@LOADED@" "$@"
notes="@NOTES@"
verb= dry= repository= key=- previous= last=
for argument in "$@"; do
    [ "$previous" = -- ] && [ -z "$repository" ] && repository=${argument%%::*}
    case "$argument" in
        create|list|info|init|delete|prune|compact|check|break-lock|key|extract|export-tar) [ -z "$verb" ] && verb=$argument ;;
        --dry-run) dry=-dry ;;
        --comment=*holdfast:*) key=${argument##*holdfast:} ;;
    esac
    previous=$argument last=$argument
done
read -r uptime idle < /proc/uptime
run="$$.$uptime"
exec 9>>"$notes/${repository##*/}.lane"
case "$verb" in list|info|key|extract|export-tar) mode=-s ;; *) mode=-x ;; esac
flock -n $mode 9 || echo "$run $verb $repository" >> "$notes/overlaps"
echo "$run $verb$dry" >> "$notes/verbs"
[ -e "$notes/slow-$verb" ] && sleep "$(cat "$notes/slow-$verb")"
case "$verb" in
    create) ;;
    init|info|list) WARM_ENGINE_KEEPS=9 exec "@LOADED@" "$@" ;;
    *) exec "@ENGINE@" "$@" ;;
esac
echo "$run $key" >> "$notes/starts"
before=3 after=0 pause=
case "${last##*/}" in
    exec) before=@BEFORE@ pause=@PAUSE@ ;;
    around) before=@AFTER@ after=@AFTER@ pause=@PAUSE@ ;;
    stubborn) before=@BEFORE@ pause=@PAUSE@; trap '' TERM INT HUP ;;
    held|made) before=2 after=2 pause=@PAUSE@ ;;
    deaf) before=2 after=2 pause=@PAUSE@; trap '' TERM INT HUP ;;
esac
number=0
say() {
    until=$((number + $1))
    while [ $number -lt $until ]; do
        number=$((number + 1))
        message="line $run $number"
        printf '{"type": "log_message", "time": 1.0, "levelname": "INFO", "name": "paced", "message": "%s"}\n' "$message" >&2
        echo $number >> "$notes/said-$run"
        [ -z "$pause" ] || sleep $pause
    done
}
hold() {
    while [ ! -e "$notes/let-go" ]; do say 1; done
}
say $before
case "${last##*/}" in held|deaf) hold ;; esac
if [ $after = 0 ]; then
    echo "$run" >> "$notes/begun"
    exec "@ENGINE@" "$@"
fi
"@ENGINE@" "$@"
code=$?
echo "$run $code" >> "$notes/made"
say $after
case "${last##*/}" in made) hold ;; esac
exit $code
"""  # noqa: E501


@dataclass(frozen=True, slots=True)
class Run:
    """One start of a backup by the engine. `key` is the operation's key from the archive's comment."""

    id: str
    key: str


class PacedEngine:
    """The script, and the notes that it has written."""

    def __init__(self, folder: Path, engine: Path, *, before: int = 15, after: int = 8, pause: float = 0.05) -> None:
        self.engine = engine
        self.notes = folder / "notes"
        self.program = folder / "borg"
        self.sources = folder / "sources"
        self.notes.mkdir(parents=True)
        values = {"ENGINE": engine, "NOTES": self.notes, "BEFORE": before, "AFTER": after, "PAUSE": pause}
        values["LOADED"] = warm_program(engine)
        script = re.sub(r"@(\w+)@", lambda match: str(values[match[1]]), SCRIPT)
        self.program.write_text(script)
        self.program.chmod(0o755)
        for pace in (*PACES, *HELD):
            self._fill(self.sources / pace)

    def _fill(self, folder: Path) -> None:
        folder.mkdir(parents=True)
        for number in range(20):
            (folder / f"file-{number}").write_bytes(os.urandom(2000))

    @contextmanager
    def slowly(self, verb: str, seconds: float) -> Iterator[None]:
        """Make the engine pause before each command of this name."""
        note = self.notes / f"slow-{verb}"
        note.write_text(str(seconds))
        try:
            yield
        finally:
            note.unlink()

    @contextmanager
    def let_go(self) -> Iterator[None]:
        """Hold no run within this context."""
        note = self.notes / "let-go"
        note.touch()
        try:
            yield
        finally:
            note.unlink()

    def source(self, pace: str) -> Path:
        return self.sources / pace

    def runs(self) -> list[Run]:
        """All starts of backups, in order."""
        return [Run(*line.split()) for line in self._lines("starts")]

    def starts_of(self, key: str) -> list[str]:
        return [run.id for run in self.runs() if run.key == key]

    def count_of(self, verb: str) -> int:
        """How often a command of this name was started, not counting dry runs."""
        return sum(line.split()[1:] == [verb] for line in self._lines("verbs"))

    def said(self, run: str) -> int:
        """The number of lines that a run has certainly printed. It may have printed one more and died before recording
        it.
        """
        return len(self._lines(f"said-{run}"))

    def became_engine(self) -> set[str]:
        """The runs that became the engine itself, after all of their lines."""
        return set(self._lines("begun"))

    def made(self) -> set[str]:
        """The runs of pace `around` whose engine has ended."""
        return {line.split()[0] for line in self._lines("made")}

    def overlaps(self) -> list[str]:
        return self._lines("overlaps")

    def _lines(self, name: str) -> list[str]:
        try:
            return (self.notes / name).read_text().splitlines()
        except FileNotFoundError:
            return []


def lines_by_run(log: list[str]) -> dict[str, list[int]]:
    """The numbers of the numbered lines in a log, for each run in the order of the log."""
    found: dict[str, list[int]] = defaultdict(list)
    for line in log:
        if match := LINE.fullmatch(line):
            found[match["run"]].append(int(match["number"]))
    return dict(found)
