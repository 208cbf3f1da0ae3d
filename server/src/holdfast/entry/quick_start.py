"""Speed up the start and save memory: avoid the cost of loading half a million objects."""

import ctypes
import gc
import importlib
import sys
from types import ModuleType
from typing import Any

OBJECTS_UNTIL_COLLECTION = 20_000
"""A hundred rows make some thousand objects: with the default of 700, collection takes a tenth of the answer's time."""

SWITCH_SECONDS = 0.0005
"""How long a busy thread can keep the others from running.

With the default of 5 ms, requests queue up behind a request that stores much data.
"""

# From <malloc.h>. Heaps: the default is eight for each core, and each keeps what its threads once needed. Mapped:
# larger blocks are returned to the system at once; by default this threshold grows with the first large block, and the
# 19 MB of a password hash would stay allocated.
M_MMAP_THRESHOLD, M_ARENA_MAX = -3, -8
MAPPED_BYTES = 1024 * 1024
HEAPS = 2


def begin() -> None:
    """Prepare for loading the service: pause garbage collection, return freed memory, and skip unused modules."""
    gc.disable()
    give_memory_back()
    sys.modules["greenlet"] = None  # type: ignore[assignment] # only for asynchronous statements
    _load_without("rich", "structlog")  # only for coloured tracebacks
    _leave_out("uvicorn.main", "Server", "main", "run")  # only for its own command line
    _leave_out("jwt.jwks_client", "PyJWKClient")  # only for keys fetched from a URL
    _load_without("cryptography", "jwt")  # only for other signature algorithms
    sys.modules["pydantic.v1"] = None  # type: ignore[assignment] # else the framework consults it for each route
    _load_framework()


def give_memory_back() -> None:
    """Limit how much freed memory the C library keeps. C libraries other than glibc do so by themselves."""
    set_option = getattr(ctypes.CDLL(None), "mallopt", None)
    if set_option is not None:
        set_option(M_ARENA_MAX, HEAPS)
        set_option(M_MMAP_THRESHOLD, MAPPED_BYTES)


def _load_without(optional: str, module: str) -> None:
    """Load a module as if an optional dependency of it were not installed."""
    if optional in sys.modules:
        return
    sys.modules[optional] = None  # type: ignore[assignment] # importing it fails from now on
    try:
        importlib.import_module(module)
    finally:
        del sys.modules[optional]


def _leave_out(module: str, *names: str) -> None:
    """Substitute an empty module for one whose names a package imports but never uses here."""
    empty = ModuleType(module)
    empty.__dict__.update(dict.fromkeys(names))
    sys.modules[module] = empty


def _load_framework() -> None:
    """Load the framework so that its OpenAPI models are built together with the document, not now."""
    from pydantic import BaseModel

    rebuild: Any = BaseModel.__dict__["model_rebuild"]

    def when_needed(model: type[BaseModel], /, **options: Any) -> bool | None:
        # The framework calls it without options; a model that is used before it is built passes some.
        return rebuild.__func__(model, **options) if options else None

    BaseModel.model_config["defer_build"] = True
    BaseModel.model_rebuild = classmethod(when_needed)  # type: ignore[assignment,method-assign]
    try:
        import fastapi  # noqa: F401
    finally:
        BaseModel.model_rebuild = rebuild  # type: ignore[method-assign]
        del BaseModel.model_config["defer_build"]


def end() -> None:
    """After loading: exempt all current objects from garbage collection.

    Nothing is collected first: that would take a tenth of the start-up time and free only a few hundred objects.
    """
    gc.freeze()
    gc.set_threshold(OBJECTS_UNTIL_COLLECTION)
    sys.setswitchinterval(SWITCH_SECONDS)
    gc.enable()
