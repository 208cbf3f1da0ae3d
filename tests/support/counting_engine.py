"""An engine that prints, at its end, the number of archive items it has examined."""

from pathlib import Path

PROGRAM = """
import sys
from borg.archive import Archive
from borg.archiver import main
asked, seen = Archive.item_filter, []
def counted(self, item, *more):
    seen.append(item.path)
    return asked(self, item, *more)
Archive.item_filter = counted
try:
    main()
finally:
    print("looked at", len(seen), file=sys.stderr)
"""


def counting_engine(folder: Path, program: Path) -> Path:
    """The same program, under the same Python."""
    counting = folder / "counting-engine"
    counting.write_text(program.read_text().partition("\n")[0] + "\n" + PROGRAM)
    counting.chmod(0o755)
    return counting
