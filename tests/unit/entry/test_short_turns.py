import ctypes
import platform
import subprocess
import sys
import threading

import pytest

from holdfast.entry.short_turns import SCHED_SETATTR, TURN_NANOSECONDS, Attributes, ask_for_short_turns

KERNEL = tuple(int(part) for part in platform.release().split("-")[0].split(".")[:2])
pytestmark = pytest.mark.skipif(platform.machine() != "x86_64", reason="asks the kernel by the numbers of x86_64")

TURN_OF_A_PROCESS = """
import ctypes
from holdfast.entry.short_turns import Attributes
told = Attributes()
ctypes.CDLL(None).syscall(315, 0, ctypes.byref(told), ctypes.sizeof(told), 0)
print(told.runtime)
"""


def own_turn() -> int:
    told = Attributes()
    assert ctypes.CDLL(None).syscall(SCHED_SETATTR["x86_64"] + 1, 0, ctypes.byref(told), ctypes.sizeof(told), 0) == 0
    return int(told.runtime)


def in_a_thread(seen: list[object]) -> None:
    seen.append(ask_for_short_turns())
    seen.append(own_turn())
    other = threading.Thread(target=lambda: seen.append(own_turn()))
    other.start()
    other.join()
    seen.append(int(subprocess.check_output([sys.executable, "-c", TURN_OF_A_PROCESS])))


def test_the_thread_that_asks_gets_short_turns_and_neither_threads_nor_processes_inherit_them() -> None:
    before = own_turn()
    seen: list[object] = []

    asking = threading.Thread(target=in_a_thread, args=(seen,))
    asking.start()
    asking.join()

    knows_them = KERNEL >= (6, 12)
    assert seen == [True, TURN_NANOSECONDS if knows_them else 0, before, before]
    assert own_turn() == before


def test_a_thread_whose_scheduling_an_administrator_chose_keeps_it() -> None:
    as_batch = "import os; os.sched_setscheduler(0, os.SCHED_BATCH, os.sched_param(0)); "
    ask = "from holdfast.entry.short_turns import ask_for_short_turns; print(ask_for_short_turns(), os.sched_getscheduler(0))"

    told = subprocess.check_output([sys.executable, "-c", as_batch + ask], text=True)

    assert told.split() == ["False", "3"]
