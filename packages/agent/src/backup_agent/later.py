"""Modules that are loaded when something of them is used: libraries import them, and an agent hardly ever needs them.

The standard library's `LazyLoader` loads them at the second import already.
"""

import sys
from importlib import import_module
from types import ModuleType
from typing import Any

RARELY_USED = ("inspect", "ipaddress")
"""`dataclasses` needs the first for classes without a docstring, `urllib` the second for addresses in brackets."""


class _Later(ModuleType):
    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):  # the import system asks for these
            raise AttributeError(name)
        if sys.modules.get(self.__name__) is self:
            del sys.modules[self.__name__]
        module = import_module(self.__name__)
        self.__dict__.update(vars(module))
        return getattr(module, name)


def load_later(*names: str) -> None:
    """To be called before anything that imports them."""
    for name in names:
        sys.modules.setdefault(name, _Later(name))
