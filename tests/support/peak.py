"""Measure how much memory a piece of work takes, in a separate process."""

import json
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
MIB = 1024 * 1024

_FRAME = """
import json, sys
def status(name):
    return next(int(line.split()[1]) * 1024 for line in open("/proc/self/status") if line.startswith(name + ":"))
def measured(work):
    open("/proc/self/clear_refs", "w").write("5")  # forget the peak so far
    before = status("VmRSS")
    try:
        result = work()
    except Exception as error:
        result = f"{type(error).__name__}: {error}"
    print(json.dumps({"growth": max(0, status("VmHWM") - before), "result": result}))
"""


def growths_of(program: str, *arguments: str, seconds: float = 300) -> list[tuple[int, Any]]:
    """Run a program that calls `measured(work)`. For each piece of work, return the growth of its peak in bytes, and
    its result.
    """
    command = [sys.executable, "-c", _FRAME + program, *arguments]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, timeout=seconds, check=False)
    assert done.returncode == 0, done.stderr.decode()
    answers = [json.loads(line) for line in done.stdout.splitlines()]
    return [(answer["growth"], answer["result"]) for answer in answers]


def peak_of(pid: int) -> int:
    """The peak memory of a process so far, in bytes."""
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return next(int(line.split()[1]) * 1024 for line in lines if line.startswith("VmHWM:"))


@dataclass
class Growth:
    bytes: int = 0


@contextmanager
def growth_of(pid: int) -> Iterator[Growth]:
    """Measure by how much another process's peak exceeds its memory at the start of the block, once the block has
    ended.
    """
    Path(f"/proc/{pid}/clear_refs").write_text("5")  # forget the peak so far
    before, growth = peak_of(pid), Growth()
    yield growth
    growth.bytes = max(0, peak_of(pid) - before)
