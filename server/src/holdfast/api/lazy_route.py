"""Routes that are built on first use.

Building a route, with its parameters, its model and all its dependencies, takes milliseconds. For all routes together
that is a third of the start-up time, and most are never called during the life of a process. Finding a route requires
only its path and methods.
"""

import threading
from collections.abc import Callable
from typing import Any

from fastapi.routing import APIRoute
from starlette.routing import compile_path, get_name

_guard = threading.RLock()


class LazyRoute(APIRoute):
    def __init__(self, path: str, endpoint: Callable[..., Any], **options: Any) -> None:
        self.path = path
        self.endpoint = endpoint
        self.methods = {method.upper() for method in options.get("methods") or ["GET"]}
        self.path_regex, self.path_format, self.param_convertors = compile_path(path)
        # Fix the name now: functions created in a loop may be renamed later for tracebacks.
        self._pending: dict[str, Any] | None = {**options, "name": options.get("name") or get_name(endpoint)}

    def __getattr__(self, name: str) -> Any:
        """Build the route, once, when an attribute is missing."""
        with _guard:
            options = self.__dict__.get("_pending")
            if options is not None:
                self._pending = None
                super().__init__(self.path, self.endpoint, **options)
            if name in self.__dict__:
                return self.__dict__[name]
        raise AttributeError(name)
