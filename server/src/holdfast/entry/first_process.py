"""The duty of a container's first process: reap every orphan that ends.

An engine whose shim was killed becomes a child of process 1. Without a wait it would remain a zombie, and its process
id in an engine's lock would look alive.
"""

import os
import signal

PASSED_ON = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGQUIT)


def fork_if_first() -> int | None:
    """As process 1, fork a child that continues, wait for all children, and return the child's exit code.

    Return None in the process that continues: the child, or a process that is not the first.
    """
    if os.getpid() != 1:
        return None
    signal.pthread_sigmask(signal.SIG_BLOCK, PASSED_ON)  # until they can be passed on
    child = os.fork()
    if child == 0:
        signal.pthread_sigmask(signal.SIG_UNBLOCK, PASSED_ON)
        return None
    for number in PASSED_ON:
        signal.signal(number, lambda received, _frame: os.kill(child, received))
    signal.pthread_sigmask(signal.SIG_UNBLOCK, PASSED_ON)
    while True:
        ended, status = os.waitpid(-1, 0)
        if ended == child:
            code = os.waitstatus_to_exitcode(status)
            return code if code >= 0 else 128 - code
