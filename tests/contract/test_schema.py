"""Valid and invalid requests generated from the OpenAPI document: every response conforms to the document."""

import os
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pytest
import requests
import schemathesis
from hypothesis import HealthCheck, Phase, assume, given, settings
from schemathesis import Case, GenerationMode
from schemathesis.checks import not_a_server_error
from schemathesis.core.failures import FailureGroup
from schemathesis.schemas import APIOperation
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    response_headers_conformance,
    response_schema_conformance,
    status_code_conformance,
)

from tests.support.running import Running, Services
from tests.support.service import PATIENCE

CHECKS = (
    not_a_server_error,
    status_code_conformance,
    content_type_conformance,
    response_headers_conformance,
    response_schema_conformance,
)
# The number of requests of each kind for each operation.
EXAMPLES = {GenerationMode.POSITIVE: 2, GenerationMode.NEGATIVE: 2}
LEFT_OUT = {
    "GET /api/events/stream": "it has no end",
    "POST /api/auth/logout": "it would end the session of all requests after it",
}
LONGEST_ADDRESS = 60_000
"""The HTTP server itself refuses a longer one before it reaches a route."""
FAR_AWAY = 1_000_000
"""Added to ids in requests that change something, so that the subjects of the other requests stay unchanged."""


@dataclass
class Callers:
    """The users who send each request, over one connection each."""

    running: Running
    sessions: dict[str, requests.Session]
    numbers: Iterator[int]

    def send(self, case: Case, mode: GenerationMode) -> None:
        """Valid requests are sent by all callers, invalid ones by each caller in turn."""
        everybody = list(self.sessions.values())
        chosen = everybody if mode is GenerationMode.POSITIVE else [everybody[next(self.numbers) % len(everybody)]]
        for session in chosen:
            answer = case.call(base_url=self.running.process.url, session=session, timeout=PATIENCE)
            case.validate_response(answer, checks=list(CHECKS))


@pytest.fixture(scope="module")
def callers(services: Services) -> Iterator[Callers]:
    running = services.new()  # limits, pauses, users and packages are generated too
    known = running.known.repository
    viewer = running.client_with_right(known, "viewer")
    sessions = {}
    for name, client in (("admin", running.admin), ("viewer", viewer)):
        sessions[name] = requests.Session()
        sessions[name].trust_env = False
        sessions[name].headers["X-Backup-Authorization"] = client.headers["X-Backup-Authorization"]
    yield Callers(running, sessions, iter(range(1_000_000)))
    for session in sessions.values():
        session.close()


def test_every_response_conforms_to_the_document(callers: Callers) -> None:
    schema = schemathesis.openapi.from_dict(callers.running.admin.get("/api/openapi.json").json())
    wrong: dict[str, str] = {}
    asked = 0

    for found in schema.get_all_operations():
        operation = found.ok()
        if operation.label in LEFT_OUT:
            continue
        for mode in modes_of(operation):
            try:
                asked += ask(callers, operation, mode)
            except (AssertionError, FailureGroup) as failure:
                wrong[f"{operation.label}, {mode.value}"] = str(failure)[:1500]

    assert not wrong, "\n\n".join(f"{label}\n{failure}" for label, failure in wrong.items())
    assert asked > 400
    for name, session in callers.sessions.items():
        assert session.get(f"{callers.running.process.url}/api/auth/me").status_code == 200, (
            f"{name} was there throughout"
        )


def modes_of(operation: APIOperation[Any, Any, Any, Any]) -> list[GenerationMode]:
    """An operation without parameters or a body has no invalid requests."""
    takes_nothing = not list(operation.iter_parameters()) and not list(operation.body)
    return [GenerationMode.POSITIVE] if takes_nothing else list(EXAMPLES)


def ask(callers: Callers, operation: APIOperation[Any, Any, Any, Any], mode: GenerationMode) -> int:
    asked = 0

    @settings(
        max_examples=EXAMPLES[mode],
        derandomize=True,
        database=None,
        phases=[Phase.explicit, Phase.generate],
        suppress_health_check=list(HealthCheck),
    )
    @given(case=operation.as_strategy(generation_mode=mode))
    def send(case: Case) -> None:
        nonlocal asked
        tame(callers, case)
        assume(len(prepared_address(callers, case)) < LONGEST_ADDRESS)
        callers.send(case, mode)
        asked += 1

    send()
    return asked


def prepared_address(callers: Callers, case: Case) -> str:
    arguments = case.as_transport_kwargs(base_url=callers.running.process.url)
    return str(requests.Request("GET", arguments["url"], params=arguments.get("params")).prepare().url)


def tame(callers: Callers, case: Case) -> None:
    """Make a generated request harmless: paths stay in the test's folder, commands do nothing, ids are chosen."""
    at_work = any(status == "423" for status in case.operation.definition.raw["responses"])
    known = callers.running.known
    chosen = {
        "repository_id": known.repository["id"],
        "job_id": known.job_id,
        "operation_id": known.job_id,
        "job_type": "backup",
    }
    for name, value in (case.path_parameters or {}).items():
        if case.method == "GET" and not at_work and name in chosen and next(callers.numbers) % 2:
            case.path_parameters[name] = chosen[name]
        elif case.method != "GET" and isinstance(value, int) and 0 < value < FAR_AWAY:
            case.path_parameters[name] = value + FAR_AWAY
    if isinstance(case.body, dict):
        for name in ("path", "destination"):
            if isinstance(case.body.get(name), str) and case.body[name].startswith("/"):
                case.body[name] = f"{callers.running.folder}/made-up/{os.path.basename(case.body[name])}"
        if isinstance(case.body.get("install_command"), list):
            case.body["install_command"] = ["true"]
