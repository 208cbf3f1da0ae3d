"""Starts that are quick and leave little behind: what loading half a million objects need not cost."""

import gc
import importlib
import sys

OBJECTS_UNTIL_COLLECTION = 20_000
"""An answer of a hundred rows makes some thousand objects: with the usual 700, a tenth of its time is collecting."""

SWITCH_SECONDS = 0.0005
"""How long a busy thread keeps the others from running. With the usual 5 ms, requests queue behind one that stores much."""


def begin() -> None:
    """Before the service is loaded: collect nothing meanwhile, and leave out what is only for tracebacks in colour."""
    gc.disable()
    if "rich" in sys.modules:
        return
    sys.modules["rich"] = None  # type: ignore[assignment] # how Python is told that a module is not there
    try:
        importlib.import_module("structlog")
    finally:
        del sys.modules["rich"]


def end() -> None:
    """Once it is loaded: what is there now stays, so no collection ever has to look at it again.

    Nothing is collected first: that takes a tenth of the start and finds a few hundred objects.
    """
    gc.freeze()
    gc.set_threshold(OBJECTS_UNTIL_COLLECTION)
    sys.setswitchinterval(SWITCH_SECONDS)
    gc.enable()
