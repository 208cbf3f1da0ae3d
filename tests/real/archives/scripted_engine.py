"""A real BorgBackup behind a script that obeys rules for single commands.

A rule has a shell pattern for the whole command line and an action for the commands that match: `fail` (an error and
exit code 2), `exit` (that exit code), `garble` (half a document, exit code 0), `cut` (the first bytes of the engine's
output, exit code 0), `wait` (until the rule is lifted, then run the engine). As the program is a shell script, archives
are read by their listings.
"""

import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.support.service import wait_until

ARCHIVE_LIST = "*list --json*"

SCRIPT = r"""#!/bin/sh
[ "$1" = --version ] && exec "@ENGINE@" "$@"
printf '%s\n' "$*" >> "@CALLS@"
for rule in "@RULES@"/*; do
    [ -e "$rule" ] || continue
    { read -r pattern; read -r action; read -r argument; } < "$rule"
    case "$*" in
    $pattern) ;;
    *) continue ;;
    esac
    case "$action" in
    fail)
        echo '{"type": "log_message", "time": 1.0, "levelname": "ERROR", "name": "rule", "message": "told to fail"}' >&2
        exit 2 ;;
    exit) exit "$argument" ;;
    garble) printf '{"archives": [{"na'; exit 0 ;;
    cut) "@ENGINE@" "$@" | head -c "$argument"; exit 0 ;;
    wait)
        echo "$$" >> "$rule.reached"
        while [ -e "$rule" ]; do sleep 0.02; done ;;
    esac
done
exec "@ENGINE@" "$@"
"""


def listing_of(archive: str) -> str:
    """The pattern for the listing of one archive's files."""
    return f"*list*::{archive}"


class ScriptedEngine:
    def __init__(self, folder: Path, engine: Path) -> None:
        self.engine = engine
        self.rules = folder / "rules"
        self.rules.mkdir(parents=True)
        self.calls = folder / "calls"
        self.calls.touch()
        self.program = folder / "borg"
        values = {"ENGINE": engine, "RULES": self.rules, "CALLS": self.calls}
        self.program.write_text(re.sub(r"@(\w+)@", lambda match: str(values[match[1]]), SCRIPT))
        self.program.chmod(0o755)
        self._number = 0

    @contextmanager
    def rule(self, pattern: str, action: str, argument: object = "") -> Iterator["Rule"]:
        """Apply an action to the commands that match the pattern, for the duration of the block."""
        self._number += 1
        rule = Rule(self.rules / f"rule{self._number}")
        part = self.rules.parent / f"rule{self._number}.part"
        part.write_text(f"{pattern}\n{action}\n{argument}\n")
        part.rename(rule.file)
        try:
            yield rule
        finally:
            rule.lift()


class Rule:
    def __init__(self, file: Path) -> None:
        self.file = file

    def wait_until_reached(self) -> None:
        """Wait until a command is held by a `wait` rule."""
        reached = self.file.with_name(self.file.name + ".reached")
        wait_until(reached.exists, pause=0.02, what="a command of the engine is held")

    def lift(self) -> None:
        self.file.unlink(missing_ok=True)
