"""Load rarely needed modules on first use: libraries import them, but an agent hardly ever uses them.

The standard library's `LazyLoader` would load them at their second import.
"""

import sys
from importlib import import_module
from types import ModuleType
from typing import Any

RARELY_USED = ("inspect", "ipaddress")
"""`dataclasses` needs the first for classes without a docstring, `urllib` the second for addresses in brackets."""


class _Later(ModuleType):
    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):  # requested by the import system
            raise AttributeError(name)
        if sys.modules.get(self.__name__) is self:
            del sys.modules[self.__name__]
        module = import_module(self.__name__)
        self.__dict__.update(vars(module))
        return getattr(module, name)


def load_later(*names: str) -> None:
    """Defer the loading of these modules. Call this before anything imports them."""
    for name in names:
        sys.modules.setdefault(name, _Later(name))
