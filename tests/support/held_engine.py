"""A real BorgBackup behind a script that can be held before or after its work, and records concurrent use of a
repository.

While the file `before-VERB` exists, runs of that verb wait before the engine starts; while `after-VERB` exists, they
wait after the engine has finished its work. `fail-VERB` makes runs fail before they begin. Each run records its start
and locks its repository's lane for as long as it lives; a run that finds the lane locked by a conflicting run records
that too.
"""

import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.support.service import wait_until
from tests.support.warm_engines import warm_program

SCRIPT = r"""#!/bin/sh
[ "$1" = --version ] && exec "@LOADED@" "$@"
notes="@NOTES@"
verb= repository= previous=
for argument in "$@"; do
    [ "$previous" = -- ] && [ -z "$repository" ] && repository=${argument%%::*}
    case "$argument" in
        create|list|info|init|delete|prune|compact|check|extract|key) [ -z "$verb" ] && verb=$argument ;;
        --dry-run) [ "$verb" = prune ] && verb=plan ;;
    esac
    previous=$argument
done
export WARM_ENGINE_KEEPS=9
exec 9>>"$notes/${repository##*/}.lane"
case "$verb" in list|info|extract|plan|key) mode=-s ;; *) mode=-x ;; esac
flock -n $mode 9 || echo "$verb $repository" >> "$notes/overlaps"
echo "$$ $repository" >> "$notes/came-$verb"
if [ -e "$notes/fail-$verb" ]; then
    echo '{"type": "log_message", "time": 1.0, "levelname": "ERROR", "name": "held", "message": "told to fail"}' >&2
    exit 2
fi
while [ -e "$notes/before-$verb" ]; do sleep 0.02; done
[ -e "$notes/after-$verb" ] || exec "@LOADED@" "$@"
"@LOADED@" "$@"
code=$?
echo "$$ $code" >> "$notes/done-$verb"
while [ -e "$notes/after-$verb" ]; do sleep 0.02; done
exit $code
"""


class HeldEngine:
    def __init__(self, folder: Path, engine: Path) -> None:
        self.engine = engine
        self.notes = folder / "notes"
        self.program = folder / "borg"
        self.notes.mkdir(parents=True)
        values = {"LOADED": warm_program(engine), "NOTES": self.notes}
        self.program.write_text(re.sub(r"@(\w+)@", lambda match: str(values[match[1]]), SCRIPT))
        self.program.chmod(0o755)

    @contextmanager
    def held(self, when: str, verb: str) -> Iterator[None]:
        """Hold runs of this verb `before` or `after` their work, or let them `fail`, within this context."""
        note = self.notes / f"{when}-{verb}"
        note.touch()
        try:
            yield
        finally:
            note.unlink(missing_ok=True)

    def let_go(self, when: str, verb: str) -> None:
        (self.notes / f"{when}-{verb}").unlink()

    def came(self, verb: str) -> list[int]:
        """The pids of all runs of this verb so far, in order."""
        return [int(line.split()[0]) for line in self._lines(f"came-{verb}")]

    def done(self, verb: str) -> list[int]:
        """The pids of the runs of this verb that were held after their work."""
        return [int(line.split()[0]) for line in self._lines(f"done-{verb}")]

    def wait_until_held(self, when: str, verb: str, number: int = 1) -> int:
        """Wait until `number` runs of the verb are held; return the pid of the last one."""
        seen = self.came if when == "before" else self.done
        return wait_until(
            lambda: seen(verb)[-1] if len(seen(verb)) >= number else None, 60, 0.02, f"{number} runs of {verb} are held"
        )

    def overlaps(self) -> list[str]:
        return self._lines("overlaps")

    def _lines(self, name: str) -> list[str]:
        try:
            return (self.notes / name).read_text().splitlines()
        except FileNotFoundError:
            return []
