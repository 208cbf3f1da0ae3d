"""No thread of the framework waits for an engine, for another machine, or for an operation to end."""

import ast
import inspect
from collections.abc import Iterable
from typing import Any

from fastapi.routing import APIRoute, RouteContext

from holdfast.agents.runtime_routes import call_output
from holdfast.api import dependencies
from holdfast.archives import history_routes
from holdfast.archives.live_answers import LIVE_ANSWERS
from holdfast.downloads.opening import DOWNLOADS
from holdfast.machines import folder_routes
from holdfast.machines.machines import MACHINES
from holdfast.maintenance.deleted_archives import DELETED_ANSWERS
from holdfast.maintenance.dry_run import DRY_RUNS
from holdfast.maintenance.wipe.preview import PREVIEWS as WIPE_PREVIEWS
from holdfast.mirror.remotes import REMOTES
from holdfast.operations import cancel as cancelling
from holdfast.repositories.register import REGISTER
from holdfast.restore.preview import PREVIEWS as RESTORE_PREVIEWS
from holdfast.restore.to_agent.restore_streams import RESTORE_STREAMS
from tests.architecture.test_guards import calls, name_of, routes
from tests.architecture.test_single_places import dotted, nodes

ASK_ENGINES = {
    DELETED_ANSWERS,
    DOWNLOADS,
    DRY_RUNS,
    LIVE_ANSWERS,
    MACHINES,
    RESTORE_STREAMS,
    REGISTER,
    REMOTES,
    RESTORE_PREVIEWS,
    WIPE_PREVIEWS,
    folder_routes.the_folders,
}
"""A route that depends on one of these can reach an engine, an ssh machine or rclone."""
IN_A_WAY_OF_THEIR_OWN = {
    "browse": "queries the index in an ordinary thread, and the engine through the limiter",
    "download_file": "sends in its own threads, within its own limits",
    "download_folder": "sends in its own threads, within its own limits",
    "live_archives": "queries the store in an ordinary thread, and the engine through the limiter; identical requests "
    "share one query",
    "old_list": "queries the store in an ordinary thread, and the engine through the limiter; identical requests share "
    "one query",
    "restore_stream": "sends in its own threads",
    "use_ticket": "sends in its own threads, within its own limits",
}
ASK_THE_STORE_ALONE = {
    "forget_repository",
    "set_up_repository",
    "change_connection",
    "forget_connection",
    "list_remotes",
    "read_remote",
}


def endpoint(context: RouteContext) -> Any:
    assert isinstance(context.original_route, APIRoute)
    return context.original_route.endpoint


def test_every_route_that_can_reach_an_engine_uses_the_limiter() -> None:
    reaching = [context for context in routes() if ASK_ENGINES & set(calls(context.dependant))]

    assert len(reaching) > 25
    missing = {
        name_of(context)
        for context in reaching
        if not getattr(endpoint(context), "asks_engine", False)
        and endpoint(context).__name__ not in ASK_THE_STORE_ALONE | set(IN_A_WAY_OF_THEIR_OWN)
    }
    assert missing == set(), "mark them with @asks_engine"


def test_no_route_that_waits_holds_a_transaction() -> None:
    transactions = {dependencies._reading, dependencies._writing}
    waiting = [
        context
        for context in routes()
        if any(getattr(endpoint(context), mark, False) for mark in ("asks_engine", "waits_for_end", "computes"))
    ]

    assert len(waiting) > 20
    assert [name_of(context) for context in waiting if transactions & set(calls(context.dependant))] == []


def functions(found: Iterable[ast.AST]) -> list[ast.FunctionDef]:
    return [node for node in found if isinstance(node, ast.FunctionDef)]


def calls_cancel(function: ast.FunctionDef) -> bool:
    """Whether the function itself calls it, not one that is defined inside."""
    inside = list(ast.walk(function))
    within = {id(node) for inner in functions(inside) if inner is not function for node in ast.walk(inner)}
    return any(
        isinstance(node, ast.Call) and dotted(node.func) == cancelling.cancel.__name__ and id(node) not in within
        for node in inside
    )


def test_every_route_that_cancels_waits_without_a_thread() -> None:
    cancelling_routes = {
        function.name
        for name, found in nodes()
        if name.endswith("routes.py")
        for function in functions(found)
        if calls_cancel(function)
    }

    waiting = [context for context in routes() if getattr(endpoint(context), "waits_for_end", False)]
    assert len(waiting) >= 5
    assert cancelling_routes == {endpoint(context).__name__ for context in waiting}


def test_long_running_routes_without_a_mark_are_asynchronous() -> None:
    assert inspect.iscoroutinefunction(call_output)
    assert inspect.iscoroutinefunction(history_routes.browse)
