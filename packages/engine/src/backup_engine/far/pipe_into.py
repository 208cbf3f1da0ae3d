"""Pipe an engine's output into another program, as one run under the shim; neither stream is stored in a file.

Run as ``python -I -S pipe_into.py COUNT RECEIVER… ENGINE…``, where COUNT is the number of words in RECEIVER.
Either side may be on another machine: the receiver over ssh, the engine through ``run.py``. The exit code is the
engine's, or the receiver's if that fails first, since the engine then only notices a closed pipe. If the receiver
reports a truncated stream, that counts only if the engine reports nothing worse.
"""

import signal
import subprocess
import sys

FAILED = 2
NOT_FOUND = 127
SSH_FAILED = 255
BROKEN_OFF = 3
"""Exit code of `unpack`."""
STOPPED = (128 + signal.SIGTERM, 128 + signal.SIGKILL)


def main() -> int:
    count = int(sys.argv[1])
    there, here = sys.argv[2 : 2 + count], sys.argv[2 + count :]
    try:
        receiver = subprocess.Popen(there, stdin=subprocess.PIPE, stdout=subprocess.DEVNULL)
        assert receiver.stdin is not None
        # The engine reads its passphrase from an inherited descriptor and inherits the shim's lock like any engine.
        engine = subprocess.Popen(here, stdout=receiver.stdin, stdin=subprocess.DEVNULL, close_fds=False)
    except OSError as error:
        sys.stderr.write(f"{error}\n")
        return NOT_FOUND
    receiver.stdin.close()
    signal.signal(signal.SIGTERM, signal.SIG_IGN)  # both received it too; this process stays to report how they end
    return joint_code(code_of(engine), code_of(receiver))


def joint_code(made: int, received: int) -> int:
    if made in STOPPED or received == 0:
        return made
    if received == SSH_FAILED:
        return SSH_FAILED
    if is_success(received):
        return made or received
    if received == BROKEN_OFF:
        if not is_success(made):
            return made
        sys.stderr.write("The engine's output did not arrive completely.\n")
    return FAILED


def is_success(code: int) -> bool:
    return code in (0, 1) or 100 <= code < NOT_FOUND - 1


def code_of(process: "subprocess.Popen[bytes]") -> int:
    code = process.wait()
    return code if code >= 0 else 128 - code


if __name__ == "__main__":
    sys.exit(main())
