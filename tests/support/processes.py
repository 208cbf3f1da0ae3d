"""The processes of this machine, read from the system."""

from pathlib import Path


def command_line(pid: int) -> str:
    """The arguments of a process; empty if it is gone or a zombie."""
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode("utf-8", "replace").strip()
    except OSError:
        return ""


def all_pids() -> list[int]:
    return [int(entry.name) for entry in Path("/proc").glob("[0-9]*")]


def processes_naming(text: str) -> dict[int, str]:
    """The live processes whose arguments contain the text, with their arguments."""
    found = {pid: command_line(pid) for pid in all_pids()}
    return {pid: arguments for pid, arguments in found.items() if text in arguments}


def children_of(pid: int) -> list[int]:
    """The child processes of a process."""
    return [child for child in all_pids() if _parent(child) == pid]


def _parent(pid: int) -> int | None:
    try:
        return int(Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[1])
    except (OSError, IndexError):
        return None
