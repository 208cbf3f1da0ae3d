"""An engine here whose output is the input of a program on another machine, as one run under the shim.

Run as ``python -I -S pour.py COUNT SSH… ENGINE…``, where COUNT is the number of words of the ssh command. It ends as the engine
ended; when the other end fails first, as that did: the engine then only notices that nobody reads.
"""

import signal
import subprocess
import sys

FAILED = 2
NOT_FOUND = 127
SSH_FAILED = 255


def main() -> int:
    count = int(sys.argv[1])
    there, here = sys.argv[2 : 2 + count], sys.argv[2 + count :]
    try:
        receiver = subprocess.Popen(there, stdin=subprocess.PIPE, stdout=subprocess.DEVNULL)
        assert receiver.stdin is not None
        # The engine takes its passphrase from an inherited descriptor, and holds the shim's lock as any engine does.
        engine = subprocess.Popen(here, stdout=receiver.stdin, stdin=subprocess.DEVNULL, close_fds=False)
    except OSError as error:
        sys.stderr.write(f"{error}\n")
        return NOT_FOUND
    receiver.stdin.close()
    signal.signal(signal.SIGTERM, signal.SIG_IGN)  # both have got it, too; how they end is to be told
    made, received = code_of(engine), code_of(receiver)
    if received and made not in (128 + signal.SIGTERM, 128 + signal.SIGKILL):
        return SSH_FAILED if received == SSH_FAILED else FAILED
    return made


def code_of(process: "subprocess.Popen[bytes]") -> int:
    code = process.wait()
    return code if code >= 0 else 128 - code


if __name__ == "__main__":
    sys.exit(main())
