"""Write docs/tour.md: a first hour at the terminal, typed and recorded.

    tools/record_tour.py --server URL --run-log FILE --system NAME > docs/tour.md

The service must be running at --server, freshly installed, in the current folder; --run-log is the output of `make
run`. `tools/record_tour.sh` does all of that on a bare machine. Uses only the standard library.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))

from play_documents import ANSWERS, PRINTED_SERVER, Played, Shell, blocks_of, commands_of

HEAD = """# A first hour

Recorded on {system} by `tools/record_tour.sh`: every command below was run there and is followed by its
output. Prompted passwords and passphrases are not shown. `$?` is shown for commands with a non-zero exit code.

## Start

```
$ make run
{log}
```
"""

TOUR = Path(__file__).resolve().parents[1] / "README.md"

HOUR = {
    "The README's first backup": "",
    "List the archives": """
holdfast repos
holdfast archives letters
holdfast browse letters latest "${HOME#/}/letters"
""",
    "Change something, and back it up again": """
echo 'Dear Bert' > ~/letters/bert.txt; echo 'Dear Anna, once more' > ~/letters/anna.txt
holdfast backup letters
""",
    "Restore next to existing files": """
holdfast restore letters latest ~/restored
cat ~/restored/"${HOME#/}"/letters/anna.txt
holdfast download letters latest "${HOME#/}/letters/anna.txt" -o anna.txt
cat anna.txt
holdfast history letters "${HOME#/}/letters/anna.txt"
""",
    "Verify that it can be restored, and clean up": """
holdfast restore-check letters --full
holdfast prune letters --dry-run --keep-last 1
holdfast prune letters --keep-last 1
holdfast check letters
""",
    "When something goes wrong": """
mv ~/letters ~/letters-away
holdfast backup letters
holdfast status
holdfast ops list --status failed
mv ~/letters-away ~/letters
holdfast backup letters
holdfast status
holdfast backup nothing-of-this-name
""",
    "Review the activity": """
holdfast activity
""",
}


def recorded(title: str, played: list[Played], server: str) -> str:
    lines = [f"\n## {title}\n", "```"]
    for one in played:
        lines.append(f"$ {one.command}")
        lines += [one.output] if one.output else []
        lines += [f"($? is {one.code})"] if one.code else []
    return "\n".join([*lines, "```"]).replace(server, PRINTED_SERVER)


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--server", required=True)
    parser.add_argument("--run-log", required=True, type=Path)
    parser.add_argument("--system", required=True, help="Name of the system, such as Debian 12.")
    arguments = parser.parse_args()
    tour = "\n".join(block.text for block in blocks_of(TOUR, "README.md") if block.is_played)
    parts = {title: commands_of(text or tour) for title, text in HOUR.items()}
    commands = [command for part in parts.values() for command in part]
    log = arguments.run_log.read_text().strip().replace(arguments.server, PRINTED_SERVER)
    log = log.replace(f" login --server {PRINTED_SERVER}", " login")  # as it is at the usual address
    print(HEAD.format(system=arguments.system, log=log).rstrip())
    playing = Shell(ANSWERS, {"HOLDFAST_SERVER": arguments.server}).play(commands)
    for title, part in parts.items():
        print(recorded(title, [next(playing) for _ in part], arguments.server), flush=True)


if __name__ == "__main__":
    main()
