"""Output is printed completely, even if the program is stopped in between."""

import os
import select
import signal
import subprocess
import sys

from tests.support.service import wait_until

CHARACTERS = 300_000
PROGRAM = f"""
from holdfast.kit.standard_output import write_completely
write_completely()
print("x" * {CHARACTERS})
"""


def state_of(pid: int) -> str:
    with open(f"/proc/{pid}/stat") as file:
        return file.read().rpartition(")")[2].split()[0]


def test_a_program_that_is_stopped_while_its_reader_is_slow_still_prints_everything() -> None:
    printing = subprocess.Popen(
        [sys.executable, "-c", PROGRAM],
        stdout=subprocess.PIPE,
        bufsize=0,
        env={**os.environ, "PYTHONUNBUFFERED": "1"},
    )
    assert printing.stdout is not None
    select.select([printing.stdout], [], [])
    wait_until(lambda: state_of(printing.pid) == "S", pause=0.01, what="the pipe is full")
    received = printing.stdout.read(8192)

    printing.send_signal(signal.SIGSTOP)
    wait_until(lambda: state_of(printing.pid) == "T", pause=0.01, what="the program has stopped")
    printing.send_signal(signal.SIGCONT)
    while block := printing.stdout.read(65536):
        received += block

    assert printing.wait() == 0
    assert len(received) == CHARACTERS + 1
