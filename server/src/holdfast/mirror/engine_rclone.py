"""Wraps the rclone that engine 2 starts: ignores signals meant for the engine, and ends with it.

Run as ``python -I -S engine_rclone.py RCLONE ARGUMENTS...``. A cancel signals the engine's whole process group. An
rclone that received the signal would end before the engine could release its lock; one that outlived a killed engine
would never end.
"""

import ctypes
import os
import signal
import sys

PR_SET_PDEATHSIG = 1


def main() -> None:
    engine = os.getppid()
    os.setpgid(0, 0)
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != engine:  # it has already ended, so no signal will come
        sys.exit(1)
    os.execv(sys.argv[1], sys.argv[1:])


if __name__ == "__main__":
    main()
