"""Starts that are quick and leave little behind: what loading half a million objects need not cost."""

import ctypes
import gc
import importlib
import sys
from types import ModuleType
from typing import Any

OBJECTS_UNTIL_COLLECTION = 20_000
"""An answer of a hundred rows makes some thousand objects: with the usual 700, a tenth of its time is collecting."""

SWITCH_SECONDS = 0.0005
"""How long a busy thread keeps the others from running.

With the usual 5 ms, requests queue behind one that stores much.
"""

# Of <malloc.h>. Heaps: by default eight for each core, and each keeps what its threads once needed. Mapped: what is
# larger goes back to the system at once; by default that bound grows with the first large block, and a password's 19 MB
# stay.
M_MMAP_THRESHOLD, M_ARENA_MAX = -3, -8
MAPPED_BYTES = 1024 * 1024
HEAPS = 2


def begin() -> None:
    """Before the service is loaded: collect nothing meanwhile, keep no freed memory, and leave out what is not used."""
    gc.disable()
    give_memory_back()
    sys.modules["greenlet"] = None  # type: ignore[assignment] # only for asynchronous statements
    _load_without("rich", "structlog")  # only for tracebacks in colour
    _leave_out("uvicorn.main", "Server", "main", "run")  # only for a command line of its own
    _leave_out("jwt.jwks_client", "PyJWKClient")  # only for keys that are fetched from elsewhere
    _load_without("cryptography", "jwt")  # only for signatures of other kinds than ours
    sys.modules["pydantic.v1"] = None  # type: ignore[assignment] # the framework asks it about each route, if it is there
    _load_framework()


def give_memory_back() -> None:
    """Bound what the C library keeps of memory that is free again. Other libraries than glibc do that by themselves."""
    set_option = getattr(ctypes.CDLL(None), "mallopt", None)
    if set_option is not None:
        set_option(M_ARENA_MAX, HEAPS)
        set_option(M_MMAP_THRESHOLD, MAPPED_BYTES)


def _load_without(optional: str, module: str) -> None:
    """Load a module as where another one, which it can do without, is not installed."""
    if optional in sys.modules:
        return
    sys.modules[optional] = None  # type: ignore[assignment] # imports of it fail from now on
    try:
        importlib.import_module(module)
    finally:
        del sys.modules[optional]


def _leave_out(module: str, *names: str) -> None:
    """Put an empty module in the place of one whose names a package imports, and never uses here."""
    empty = ModuleType(module)
    empty.__dict__.update(dict.fromkeys(names))
    sys.modules[module] = empty


def _load_framework() -> None:
    """The framework's models of an OpenAPI document are built when the document is, not when the framework is
    loaded.
    """
    from pydantic import BaseModel

    rebuild: Any = BaseModel.__dict__["model_rebuild"]

    def when_needed(model: type[BaseModel], /, **options: Any) -> bool | None:
        # The framework asks for it without options; a model that is used before it is built, with some.
        return rebuild.__func__(model, **options) if options else None

    BaseModel.model_config["defer_build"] = True
    BaseModel.model_rebuild = classmethod(when_needed)  # type: ignore[assignment,method-assign]
    try:
        import fastapi  # noqa: F401
    finally:
        BaseModel.model_rebuild = rebuild  # type: ignore[method-assign]
        del BaseModel.model_config["defer_build"]


def end() -> None:
    """After loading: the current objects stay, so no collection ever has to look at them again.

    Nothing is collected first: that takes a tenth of the start and finds a few hundred objects.
    """
    gc.freeze()
    gc.set_threshold(OBJECTS_UNTIL_COLLECTION)
    sys.setswitchinterval(SWITCH_SECONDS)
    gc.enable()
