"""Facts about a machine: its engine, its Python and the free space of a path, all reported by one /bin/sh script."""

import re
import shlex

from backup_engine.environment import SEARCH_PATH
from backup_engine.frozen import frozen
from holdfast.execution.ssh import Answer

MARK = "holdfast-probe"
OLDEST_PYTHON = (3, 9)
"""Required by the shim on that machine."""
VERSION = re.compile(r"^borg\S* (\d+(?:\.\d+)+\S*)")

SCRIPT = """
PATH="$PATH:{search_path}"
export PATH
echo '{mark} begins'
program=$(command -v -- {engine}) && printf 'engine=%s\\n' "$program" && \\
    printf 'version=%s\\n' "$("$program" --version 2>&1 </dev/null | head -n 1)"
python=$(command -v python3) && printf 'python=%s\\n' "$python" && \\
    printf 'python_version=%s\\n' "$("$python" -c 'import platform; print(platform.python_version())' 2>/dev/null </dev/null)"
place={path}
while [ -n "$place" ] && [ ! -e "$place" ]; do
    case $place in */*) place=${{place%/*}} ;; *) place=. ;; esac
done
df -Pk "${{place:-/}}" 2>/dev/null </dev/null | sed -n '2s/^/disk=/p'
echo '{mark} ends'
"""  # noqa: E501


@frozen
class Program:
    """A program on the machine; without a path it was not found."""

    path: str | None = None
    version: str | None = None


@frozen
class Probe:
    took_commands: bool
    engine: Program = Program()
    python: Program = Program()
    free_bytes: int | None = None
    total_bytes: int | None = None

    @property
    def has_python(self) -> bool:
        return self.python.path is not None and _numbers(self.python.version or "") >= OLDEST_PYTHON


def script(engine: str, path: str) -> str:
    """Given the engine's program and a path on the machine, return the script.

    A path that does not exist yet counts as its nearest existing parent.
    """
    program = engine if engine.startswith("~/") and re.fullmatch(r"[\w./~+-]+", engine) else shlex.quote(engine)
    return SCRIPT.format(search_path=SEARCH_PATH, mark=MARK, engine=program, path=shlex.quote(path))


def read(answer: Answer) -> Probe:
    lines = answer.output.splitlines()
    if f"{MARK} begins" not in lines or f"{MARK} ends" not in lines:
        return Probe(took_commands=False)
    facts = dict(line.split("=", 1) for line in lines if "=" in line)
    version = VERSION.match(facts.get("version", ""))
    disk = facts.get("disk", "").split()
    sizes = [int(word) * 1024 for word in disk[1:4] if word.isdigit()]
    return Probe(
        took_commands=True,
        engine=Program(facts.get("engine"), version[1] if version else None),
        python=Program(facts.get("python"), facts.get("python_version") or None),
        free_bytes=sizes[2] if len(sizes) == 3 else None,
        total_bytes=sizes[0] if len(sizes) == 3 else None,
    )


def _numbers(version: str) -> tuple[int, ...]:
    return tuple(int(part) for part in re.findall(r"\d+", version)[:2])
