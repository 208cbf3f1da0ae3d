"""Programs of this package that run in a Python process of their own."""

import sys

RUN_COMPILED = """
import sys
from importlib.machinery import SourceFileLoader
del sys.argv[0]
__file__ = sys.argv[0]
loader = SourceFileLoader("__main__", __file__)
try:
    code = loader.get_code("__main__")
except Exception:
    code = loader.source_to_code(loader.get_data(__file__), __file__)
del sys, SourceFileLoader, loader
exec(code)
""".strip()
"""Imports fail if a compiled form was cut off, for example by a power failure. An engine run must not."""


def run_compiled(file: str) -> tuple[str, ...]:
    """The command that runs a file with only the standard library, to be followed by its arguments.

    It runs as `python -I -S file` does, but from the compiled form that imports keep, too. Python compiles the file
    that it is given each time, which takes longer than its own start.
    """
    return (sys.executable, "-I", "-S", "-c", RUN_COMPILED, file)
