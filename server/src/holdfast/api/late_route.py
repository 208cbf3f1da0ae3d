"""Routes that are built at their first use.

Building one takes milliseconds: its parameters, its model, all of its dependencies. For all routes that is a third of a
start, and most are never called in the life of a process. Finding a route needs only its path and methods.
"""

import threading
from collections.abc import Callable
from typing import Any

from fastapi.routing import APIRoute
from starlette.routing import compile_path, get_name

_guard = threading.RLock()


class LateRoute(APIRoute):
    def __init__(self, path: str, endpoint: Callable[..., Any], **options: Any) -> None:
        self.path = path
        self.endpoint = endpoint
        self.methods = {method.upper() for method in options.get("methods") or ["GET"]}
        self.path_regex, self.path_format, self.param_convertors = compile_path(path)
        # Its name is that of the function now: functions made in a loop may get names of their own for tracebacks
        # later.
        self._late: dict[str, Any] | None = {**options, "name": options.get("name") or get_name(endpoint)}

    def __getattr__(self, name: str) -> Any:
        """Called for a missing attribute: then the route is built, once."""
        with _guard:
            options = self.__dict__.get("_late")
            if options is not None:
                self._late = None
                super().__init__(self.path, self.endpoint, **options)
            if name in self.__dict__:
                return self.__dict__[name]
        raise AttributeError(name)
