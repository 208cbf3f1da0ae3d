"""Finds the route of a request without trying one after the other.

The result is the same as the framework's: the first route in order whose path and method match, or else the first whose
path does. Paths without parameters are looked up directly. Other routes are preselected by their segments, and their
own patterns decide.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from starlette.convertors import StringConvertor
from starlette.routing import BaseRoute, Match, Route

from backup_engine.frozen import frozen

SLASH = "/"


@frozen
class RouteMatch:
    route: Route
    path_params: dict[str, Any]
    takes_method: bool


@dataclass(slots=True)
class _Node:
    """A segment of paths with parameters, and the segments that may follow it."""

    named: dict[str, "_Node"] = field(default_factory=dict)
    anything: "_Node | None" = None
    places: list[int] = field(default_factory=list)


class RouteTable:
    def __init__(self, routes: Sequence[BaseRoute]) -> None:
        self._routes = [_plain(route) for route in routes]
        self._exact: dict[str, list[int]] = {}
        self._root = _Node()
        self._walked: list[int] = []
        """Routes with a parameter that is not exactly one segment of text."""
        for place, route in enumerate(self._routes):
            self._add(place, route)

    def find(self, method: str, path: str) -> RouteMatch | None:
        partial: RouteMatch | None = None
        for place in self._candidates(path):
            found = _matched(self._routes[place], method, path)
            if found is None:
                continue
            if found.takes_method:
                return found
            partial = partial or found
        return partial

    def _add(self, place: int, route: Route) -> None:
        if not route.param_convertors:
            self._exact.setdefault(route.path, []).append(place)
            return
        node = self._root
        for segment in route.path.split(SLASH):
            if "{" not in segment:
                node = node.named.setdefault(segment, _Node())
            elif _is_whole(segment, route):
                node.anything = node.anything or _Node()
                node = node.anything
            else:
                self._walked.append(place)
                return
        node.places.append(place)

    def _candidates(self, path: str) -> Sequence[int]:
        """Positions of all routes that may match, in order; no match is missed."""
        if path.endswith("\n"):  # the end of a pattern also matches before a final newline
            return range(len(self._routes))
        exact = self._exact.get(path, ())
        others = [*self._walked, *_below(self._root, path.split(SLASH), 0)]
        return sorted([*exact, *others]) if others else exact


def _below(node: _Node, segments: list[str], depth: int) -> Iterator[int]:
    if depth == len(segments):
        yield from node.places
        return
    named = node.named.get(segments[depth])
    if named is not None:
        yield from _below(named, segments, depth + 1)
    if node.anything is not None:
        yield from _below(node.anything, segments, depth + 1)


def _matched(route: Route, method: str, path: str) -> RouteMatch | None:
    takes_method = not route.methods or method in route.methods
    if not route.param_convertors and route.path == path:
        return RouteMatch(route, {}, takes_method)
    match = route.path_regex.match(path)
    if match is None:
        return None
    convertors = route.param_convertors
    params = {name: convertors[name].convert(value) for name, value in match.groupdict().items()}
    return RouteMatch(route, params, takes_method)


def _is_whole(segment: str, route: Route) -> bool:
    """Whether a segment consists of one parameter that takes any text without a slash."""
    name = segment[1:-1].split(":")[0]
    is_one = segment.startswith("{") and segment.endswith("}") and segment.count("{") == 1
    return is_one and isinstance(route.param_convertors[name], StringConvertor)


def _plain(route: BaseRoute) -> Route:
    if not isinstance(route, Route):
        raise TypeError(f"{route} has no pattern of its own; add its routes to the application separately")
    return route


def walk(routes: Sequence[BaseRoute], method: str, path: str) -> tuple[Match, BaseRoute | None, dict[str, Any]]:
    """The framework's result, found by trying every route. Used to test the table."""
    scope = {"type": "http", "method": method, "path": path, "root_path": ""}
    partial: tuple[Match, BaseRoute | None, dict[str, Any]] = (Match.NONE, None, {})
    for route in routes:
        match, child = route.matches(scope)
        if match is Match.FULL:
            return match, route, child["path_params"]
        if match is Match.PARTIAL and partial[0] is Match.NONE:
            partial = (match, route, child["path_params"])
    return partial
