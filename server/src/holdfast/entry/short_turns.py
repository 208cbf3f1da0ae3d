"""Ask the kernel for short turns on the processor for the thread that answers requests.

A request needs that thread for well under a millisecond. But beside engines that calculate, it may have to wait each
time it wakes until their turn is over, which is several milliseconds. A thread that asks for short turns gets them at
once; its share of the processor stays the same. Linux 6.12 and later do this, and older kernels ignore the wish.
"""

import ctypes
import os
import platform

SCHED_SETATTR = {"x86_64": 314, "aarch64": 274, "riscv64": 274, "ppc64le": 355, "s390x": 345}
"""The number of the system call, by machine: the C library of Debian 12 has no function for it."""
THIS_THREAD_ONLY = 0x01
"""Threads and engines that this thread starts do not inherit its turns."""
TURN_NANOSECONDS = 100_000
"""The shortest that the kernel gives."""


class Attributes(ctypes.Structure):
    """``struct sched_attr`` in its first version."""

    _fields_ = (
        ("size", ctypes.c_uint32),
        ("policy", ctypes.c_uint32),
        ("flags", ctypes.c_uint64),
        ("nice", ctypes.c_int32),
        ("priority", ctypes.c_uint32),
        ("runtime", ctypes.c_uint64),
        ("deadline", ctypes.c_uint64),
        ("period", ctypes.c_uint64),
    )


def ask_for_short_turns() -> bool:
    """Ask for the calling thread; False where the system does not know them, or an administrator chose otherwise."""
    number = SCHED_SETATTR.get(platform.machine())
    if number is None or os.sched_getscheduler(0) != os.SCHED_OTHER:
        return False
    wish = Attributes(
        size=ctypes.sizeof(Attributes),
        policy=os.SCHED_OTHER,
        flags=THIS_THREAD_ONLY,
        nice=os.getpriority(os.PRIO_PROCESS, 0),
        runtime=TURN_NANOSECONDS,
    )
    answer: int = ctypes.CDLL(None).syscall(number, 0, ctypes.byref(wish), 0)
    return answer == 0
