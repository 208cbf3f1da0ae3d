"""Prepared routes: their dependencies are in one list, and all their synchronous code runs in a single thread visit.

The framework walks the tree of dependencies at every request and uses a thread for each part of it. Here the tree is
read once. Parameters, the order of dependencies, and errors and their format are the same as the framework's.
"""

import inspect
import json
from collections.abc import Callable
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from email.message import Message
from functools import partial
from typing import Any, TypeVar

from fastapi.datastructures import DefaultPlaceholder
from fastapi.dependencies.models import Dependant
from fastapi.dependencies.utils import request_body_to_args, request_params_to_args
from fastapi.encoders import jsonable_encoder
from fastapi.exceptions import RequestValidationError, ResponseValidationError
from fastapi.params import Form
from fastapi.routing import APIRoute
from fastapi.utils import is_body_allowed_for_status_code
from pydantic import BaseModel
from pydantic_core import PydanticUndefined as Undefined
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response

from backup_engine.frozen import frozen
from holdfast.api.dependencies import WORK
from holdfast.api.threads import Work, in_thread
from holdfast.kit import request_priority
from holdfast.storage.read_cache import ReadCache, StoreVersion

Checked = tuple[dict[str, Any], list[Any]]
"""Valid values by name, and the errors of the invalid ones."""
NOTHING: Checked = ({}, [])
SIMPLE = (type(None), bool, int, float, str, tuple)
"""Types of defaults that are immutable."""


MOST_REMEMBERED = 64
LARGEST_REMEMBERED = 64 * 1024
"""Limits on the cached responses of one route: their number, and the size of each in bytes."""

Route = TypeVar("Route", bound=Callable[..., Any])


def cached_until_commit(*, viewer: str) -> Callable[[Route], Route]:
    """Mark a route whose response depends only on the store, the query and the caller's view.

    The response is reused until something is committed to the store. `viewer` names the parameter whose `view`
    determines what the caller may see. A result that will change with time alone has to set `is_cacheable` to false.
    """

    def marked(route: Route) -> Route:
        route.viewer = viewer  # type: ignore[attr-defined]
        return route

    return marked


class NotPrepared(TypeError):
    """A route uses a framework feature that no route of this service has needed so far."""


@frozen
class _Query:
    """The query parameters of one function."""

    fields: list[Any]
    names: frozenset[str]
    defaults: dict[str, Any] | None
    """Their default values; None if any parameter is required or has a default factory."""

    def values(self, request: Request) -> Checked:
        given = request.query_params
        if self.defaults is not None and self.names.isdisjoint(given.keys()):
            return self.defaults, []
        return request_params_to_args(self.fields, given)


@dataclass(slots=True)
class _Step:
    """A function and where its arguments come from."""

    call: Callable[..., Any]
    place: int
    is_generator: bool
    query: _Query | None
    dependant: Dependant
    needs: list[tuple[str | None, "_Step"]] = field(default_factory=list)
    in_thread: bool = False


@dataclass(slots=True)
class _Request:
    """The state of one request: parameters and results, indexed by the position of their step."""

    request: Request
    response: Response | None
    parameters: list[dict[str, Any]]
    results: list[Any]


class JsonResponse(Response):
    """The serialised result of a route. It may be sent several times."""

    media_type = "application/json"
    is_cacheable = True


@frozen
class JsonResult:
    """A route's result that has already been serialised to JSON, once for all requests that share it."""

    content: bytes

    @staticmethod
    def of(value: BaseModel) -> "JsonResult":
        return JsonResult(value.model_dump_json(by_alias=True).encode())


class PreparedRoute:
    def __init__(self, route: APIRoute, version: StoreVersion | None = None) -> None:
        self._route = route
        self._steps: list[_Step] = []
        self._known: dict[Any, _Step] = {}
        self._end = self._step(route.dependant)
        self._on_loop = [step for step in self._steps[:-1] if not step.in_thread]
        self._in_thread = [step for step in self._steps[:-1] if step.in_thread]
        if self._in_thread and not self._end.in_thread:
            raise NotPrepared(f"{route.path}: an asynchronous route with a dependency that needs a thread")
        self._asking = [step for step in self._steps if _asks(step.dependant)]
        self._work = self._whose_threads()
        self._reads = self._end.in_thread and self._work == "reading"
        self._wants_response = any(step.dependant.response_param_name for step in self._steps)
        self._takes_form = route.body_field is not None and isinstance(route.body_field.field_info, Form)
        self._write = _writer(route)
        self._viewer: str | None = getattr(route.endpoint, "viewer", None)
        self._remembered: ReadCache[Response] = ReadCache(version, MOST_REMEMBERED)

    async def answer(self, request: Request) -> Response:
        """Run the route. Raise RequestValidationError for invalid parameters, and the route's own errors."""
        try:
            body = await self._body(request)
            if not self._reads:
                return await self._answer(request, body)
            with request_priority.answering():  # not only around its thread: the route also computes on the event loop
                return await self._answer(request, body)
        finally:
            if self._takes_form:
                await request.close()

    async def _answer(self, request: Request, body: Any) -> Response:
        parameters = [NOTHING] * len(self._steps)
        for step in self._asking:
            parameters[step.place] = _parameters(step, request)
        if self._end.dependant.body_params:
            parameters[-1] = _together(parameters[-1], await self._body_parameters(body))
        response = _empty_response() if self._wants_response else None
        this = _Request(request, response, [values for values, _ in parameters], [None] * len(self._steps))
        wrong = {step.place for step in self._asking if parameters[step.place][1]}
        for step in self._on_loop:
            if not (wrong and _is_wrong(step, wrong)):
                this.results[step.place] = await step.call(**_arguments(step, this))
        if wrong:
            errors = _errors(self._end, [errors for _, errors in parameters])
            raise RequestValidationError(errors, body=None if body is Undefined else body)
        if self._end.in_thread:
            return await self._in_a_thread(this)
        return self._answer_of(await self._end.call(**_arguments(self._end, this)), this)

    async def _in_a_thread(self, this: _Request) -> Response:
        run = partial(self._run, this)
        if self._viewer is None:
            return await in_thread(self._work, run)
        viewer = _arguments(self._end, this)[self._viewer]
        scope = this.request.scope
        key = (scope["path"], scope["query_string"], viewer.view)
        known = self._remembered.get(key)
        if known is None:
            known = await in_thread(self._work, partial(self._remembered.read, key, run, _is_worth_keeping))
        return known

    def _run(self, this: _Request) -> Response:
        """Run everything synchronous. The result is serialised inside the transaction, as that may need the store."""
        with ExitStack() as stack:
            for step in self._in_thread:
                made = step.call(**_arguments(step, this))
                this.results[step.place] = stack.enter_context(made) if step.is_generator else made
            return self._answer_of(self._end.call(**_arguments(self._end, this)), this)

    def _answer_of(self, value: Any, this: _Request) -> Response:
        if isinstance(value, Response):
            return value
        status = this.response.status_code if this.response is not None else 0
        status = status or self._route.status_code or 200
        answer = JsonResponse(value.content, status) if isinstance(value, JsonResult) else self._write(value, status)
        if isinstance(answer, JsonResponse):
            answer.is_cacheable = getattr(value, "is_cacheable", True)
        if this.response is not None:
            answer.raw_headers.extend(this.response.raw_headers)
        return answer

    # --- preparing -------------------------------------------------------------------------------------------------

    def _step(self, dependant: Dependant) -> _Step:
        """Add a function after its dependencies, unless it has already been added."""
        call = dependant.call
        assert call is not None
        needs = [(sub.name, self._step(sub)) for sub in dependant.dependencies]
        key = (call, dependant.scope)
        if key in self._known:
            return self._known[key]
        _require_usual(self._route, dependant)
        is_generator = inspect.isgeneratorfunction(call)
        step = _Step(
            contextmanager(call) if is_generator else call,
            len(self._steps),
            is_generator=is_generator,
            query=_query(dependant) if dependant.query_params else None,
            dependant=dependant,
            needs=needs,
        )
        step.in_thread = not _is_coroutine(call)
        if not step.in_thread and any(needed.in_thread for _, needed in needs):
            raise NotPrepared(f"{self._route.path}: {call} awaits what is made in a thread")
        self._known[key] = step
        self._steps.append(step)
        return step

    def _whose_threads(self) -> Work:
        works = {WORK.get(step.dependant.call) for step in self._in_thread}
        return "writing" if "writing" in works else "reading" if "reading" in works else "other"

    # --- the body --------------------------------------------------------------------------------------------------

    async def _body_parameters(self, body: Any) -> Checked:
        return await request_body_to_args(
            body_fields=self._end.dependant.body_params,
            received_body=body,
            embed_body_fields=self._route._embed_body_fields,  # noqa: SLF001 - only the framework's own handler has it
        )

    async def _body(self, request: Request) -> Any:
        if self._route.body_field is None:
            return Undefined
        try:
            if self._takes_form:
                return await request.form()
            content = await request.body()
            if not content:
                return Undefined
            return await request.json() if _is_json(request) else content
        except json.JSONDecodeError as error:
            problem = {
                "type": "json_invalid",
                "loc": ("body", error.pos),
                "msg": "JSON decode error",
                "input": {},
                "ctx": {"error": error.msg},
            }
            raise RequestValidationError([problem], body=error.doc) from error
        except HTTPException:
            raise
        except Exception as error:
            raise HTTPException(status_code=400, detail="There was an error parsing the body") from error


def _is_worth_keeping(answer: Response) -> bool:
    is_cacheable = isinstance(answer, JsonResponse) and answer.is_cacheable
    return is_cacheable and answer.status_code == 200 and len(answer.body) <= LARGEST_REMEMBERED


def _asks(dependant: Dependant) -> bool:
    """Whether a function takes anything from the request's path, query, headers, cookies or body."""
    return bool(
        dependant.path_params
        or dependant.query_params
        or dependant.header_params
        or dependant.cookie_params
        or dependant.body_params
    )


def _parameters(step: _Step, request: Request) -> Checked:
    """The parameters that a function takes from path, query, headers and cookies."""
    dependant = step.dependant
    found = step.query.values(request) if step.query is not None else NOTHING
    if dependant.path_params:
        found = _together(request_params_to_args(dependant.path_params, request.path_params), found)
    if dependant.header_params:
        found = _together(found, request_params_to_args(dependant.header_params, request.headers))
    if dependant.cookie_params:
        found = _together(found, request_params_to_args(dependant.cookie_params, request.cookies))
    return found


def _together(first: Checked, second: Checked) -> Checked:
    return {**first[0], **second[0]}, [*first[1], *second[1]]


def _arguments(step: _Step, this: _Request) -> dict[str, Any]:
    arguments = dict(this.parameters[step.place])
    for name, needed in step.needs:
        if name is not None:
            arguments[name] = this.results[needed.place]
    dependant = step.dependant
    if dependant.request_param_name is not None:
        arguments[dependant.request_param_name] = this.request
    if dependant.http_connection_param_name is not None:
        arguments[dependant.http_connection_param_name] = this.request
    if dependant.response_param_name is not None:
        arguments[dependant.response_param_name] = this.response
    return arguments


def _is_wrong(step: _Step, wrong: set[int]) -> bool:
    return step.place in wrong or any(_is_wrong(needed, wrong) for _, needed in step.needs)


def _errors(step: _Step, own: list[list[Any]]) -> list[Any]:
    """All errors in the framework's order, which repeats those of a function that several others depend on."""
    return [error for _, needed in step.needs for error in _errors(needed, own)] + own[step.place]


def _query(dependant: Dependant) -> _Query:
    fields = dependant.query_params
    are_plain = all(_is_plain(one) for one in fields)
    defaults = {one.name: one.field_info.default for one in fields} if are_plain else None
    return _Query(fields, frozenset(one.alias for one in fields), defaults)


def _is_plain(one: Any) -> bool:
    """Whether an omitted parameter simply takes its default, and that default is immutable."""
    info = one.field_info
    has_one_name = info.validation_alias in (None, one.alias)
    return has_one_name and not info.is_required() and not info.validate_default and isinstance(info.default, SIMPLE)


def _is_coroutine(call: Callable[..., Any]) -> bool:
    return inspect.iscoroutinefunction(call) or inspect.iscoroutinefunction(getattr(call, "__call__", None))  # noqa: B004


def _require_usual(route: APIRoute, dependant: Dependant) -> None:
    is_root = dependant is route.dependant
    unusual = (
        not dependant.use_cache
        or dependant.background_tasks_param_name
        or dependant.security_scopes_param_name
        or dependant.websocket_param_name
        or (dependant.body_params and not is_root)
        or inspect.isasyncgenfunction(dependant.call)
        or (inspect.isgeneratorfunction(dependant.call) and (is_root or dependant.scope != "function"))
    )
    if unusual:
        raise NotPrepared(f"{route.path}: {dependant.call}")


def _is_json(request: Request) -> bool:
    given = request.headers.get("content-type")
    if not given:
        return False
    message = Message()
    message["content-type"] = given
    subtype = message.get_content_subtype()
    return message.get_content_maintype() == "application" and (subtype == "json" or subtype.endswith("+json"))


def _writer(route: APIRoute) -> Callable[[Any, int], Response]:
    """Return a function that turns a route's result into a response: validated against its model, serialised once."""
    kind = route.response_class
    response_class = kind.value if isinstance(kind, DefaultPlaceholder) else kind
    shape = route.response_field
    options: dict[str, Any] = {
        "include": route.response_model_include,
        "exclude": route.response_model_exclude,
        "by_alias": route.response_model_by_alias,
        "exclude_unset": route.response_model_exclude_unset,
        "exclude_defaults": route.response_model_exclude_defaults,
        "exclude_none": route.response_model_exclude_none,
    }

    def checked(value: Any) -> Any:
        assert shape is not None
        found, errors = shape.validate(value, {}, loc=("response",))
        if errors:
            raise ResponseValidationError(errors=errors, body=value)
        return found

    def write(value: Any, status: int) -> Response:
        if shape is None:
            answer: Response = response_class(jsonable_encoder(value), status_code=status)
        elif isinstance(kind, DefaultPlaceholder):
            content = shape.serialize_json(checked(value), **options)
            answer = JsonResponse(content, status)
        else:
            answer = response_class(shape.serialize(checked(value), **options), status_code=status)
        if not is_body_allowed_for_status_code(status):
            answer.body = b""
        return answer

    return write


def _empty_response() -> Response:
    """A response to which functions can add headers and a status."""
    response = Response()
    del response.headers["content-length"]
    response.status_code = 0
    return response
