"""Make standard output lossless."""

import io
import sys


def write_completely() -> None:
    """Write everything that is printed completely, even with PYTHONUNBUFFERED.

    Without a buffer, Python writes each text with a single call. If the process is stopped and continued (Ctrl-Z and
    `fg`, a frozen container) while it waits for the reader of a full pipe, that call returns early and the rest of the
    text is lost without an error.
    """
    raw = getattr(sys.stdout, "buffer", None)
    if isinstance(raw, io.RawIOBase):
        buffered = io.BufferedWriter(raw)  # repeats calls that return early
        sys.stdout = io.TextIOWrapper(buffered, sys.stdout.encoding, sys.stdout.errors, line_buffering=True)
