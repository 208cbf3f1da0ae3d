"""Requests for every operation of the OpenAPI document, about one repository or about one that does not exist."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from tests.support.service import Client

METHODS = ("get", "post", "put", "patch", "delete")
NOT_THERE = 7_654_321
NOWHERE = "/nowhere/at/all"
ENDLESS = "/api/events/stream"


@dataclass(frozen=True)
class Subject:
    """The subject of requests: the values by which a request can name it."""

    path: str
    archive: str
    ids: dict[str, int]
    """Ids by path parameter; ids of jobs by the path segment in front of them."""

    def named_in(self, text: str) -> str:
        """Return the text with the values that name this subject masked."""
        for value in sorted({self.path, self.archive, *map(str, self.ids.values())}, key=len, reverse=True):
            text = text.replace(value, "…")
        return text


NOTHING = Subject(NOWHERE, "no-such-archive", {})


@dataclass(frozen=True)
class Route:
    method: str
    path: str
    query: frozenset[str]
    takes: str | None
    answers: frozenset[str]
    credentials: frozenset[str]

    @property
    def name(self) -> str:
        return f"{self.method} {self.path}"

    def requests_about(self, subject: Subject) -> Iterator[dict[str, Any]]:
        """Yield each request of this route that names the subject: in its path, its query or its body."""
        request: dict[str, Any] = {"method": self.method, "url": self._filled(subject)}
        required = {"q": "e"} if "q" in self.query else {"path": "/etc/hostname"} if "path" in self.query else {}
        if self.takes == "application/json":
            for body in bodies(self.path, subject):
                yield {**request, "json": body, "params": required}
            return
        if self.takes is not None:
            yield {**request, "data": {"username": "nobody", "password": "nothing"}}
            return
        yield {**request, "params": required}
        for name, value in (
            ("repository_id", subject.ids.get("repository_id", NOT_THERE)),
            ("repository", subject.path),
        ):
            if name in self.query:
                yield {**request, "params": {**required, name: value}}

    def _filled(self, subject: Subject) -> str:
        parts = self.path.split("/")
        for at, part in enumerate(parts):
            if part == "{job_type}":
                parts[at] = "backup"
            elif part == "{engine_id}":
                parts[at] = "0" * 64
            elif part.startswith("{"):
                words = (
                    part.strip("{}"),
                    parts[at - 1],
                    parts[at - 2],
                    *(["operation_id"] if part == "{job_id}" else []),
                )
                parts[at] = str(next((subject.ids[word] for word in words if word in subject.ids), NOT_THERE))
        return "/".join(parts)


def bodies(path: str, subject: Subject) -> Iterator[dict[str, Any]]:
    """Yield well-formed bodies, so that only the caller's rights decide."""
    restore = {"paths": [], "destination": "/nowhere/restored"}
    if path in ("/api/backup/start", "/api/backup/run"):
        yield {"repository": subject.path}
    elif path.startswith("/api/restore/"):
        yield {"repository": subject.path, "archive": subject.archive, **restore}
        by_id = {name: subject.ids.get(name, NOT_THERE) for name in ("repository_id", "archive_id")}
        yield {**by_id, **restore}
    elif "/databases" in path:
        yield {"name": "another", "kind": "sqlite", "database": "/nowhere/app.db"}
    elif path.endswith("/services"):
        yield {"services": ["another.service"]}
    elif path == "/api/downloads":
        yield {name: subject.ids.get(name, NOT_THERE) for name in ("repository_id", "archive_id")}
        yield {"operation_id": subject.ids.get("operation_id", NOT_THERE)}
    elif path.endswith("/losses"):
        yield {"archive_ids": [subject.ids.get("archive_id", NOT_THERE)]}
    elif path.endswith("/retention/simulate"):
        yield {"policy": {"keep_last": 1}}
    elif path == "/api/filesystem/estimate":
        yield {"paths": [subject.path]}
    elif path == "/api/repositories/probe":
        yield {"path": subject.path}
    elif path.endswith("/prune"):
        yield {"keep_last": 1}
        yield {"keep_last": 1, "dry_run": True}
    elif path.endswith("/wipe"):
        yield {"preview_id": subject.ids.get("wipe-jobs", NOT_THERE), "preview_fingerprint": "sha256:0"}
    elif path.endswith("/mirror"):
        yield {"remote_id": NOT_THERE, "path": "/nowhere/mirrored", "mode": "manual"}
    elif path.endswith("/hydrate"):
        yield {"destination": "/nowhere/hydrated", "confirm": True}
    elif path.endswith("/archives/{archive_id}"):
        yield {"protected": False}
    elif path == "/api/auth/invitation":
        yield {"token": "inv_unknown"}
    elif path == "/api/auth/invitation/accept":
        yield {"token": "inv_unknown", "new_password": "a long enough password"}
    elif path.endswith("/rebuild"):
        yield {"from": "stats"}
    elif path.endswith("/repositories/{repository_id}") and path.startswith("/api/users"):
        yield {"role": "viewer"}
    elif path in ("/api/schedules/", "/api/schedules/preview"):
        targets = {"repository_ids": [subject.ids.get("repository_id", NOT_THERE)]}
        yield {"name": "another", "cron_expression": "0 0 29 2 *", "enabled": False, "targets": targets}
    elif path.endswith("/snooze"):
        yield {"until": None}
    elif path in ("/api/repositories/", "/api/repositories/import"):
        yield {"name": "another", "path": subject.path, "passphrase": "a passphrase of nobody"}
    else:
        yield {}


def routes(client: Client) -> list[Route]:
    """All routes of the OpenAPI document, in its order."""
    document = client.get("/api/openapi.json").json()
    found = []
    for path, item in document["paths"].items():
        for method, operation in item.items():
            if method in METHODS:
                query = {entry["name"] for entry in operation.get("parameters", []) if entry["in"] == "query"}
                takes = next(iter(operation.get("requestBody", {}).get("content", {})), None)
                credentials = {name for scheme in operation.get("security", []) for name in scheme}
                found.append(
                    Route(
                        method=method.upper(),
                        path=path,
                        query=frozenset(query),
                        takes=takes,
                        answers=frozenset(operation["responses"]),
                        credentials=frozenset(credentials),
                    )
                )
    return found


def ask(client: Client, route: Route, request: dict[str, Any]) -> tuple[int, str]:
    """Return the status and the body of the response; of an endless stream only the first part."""
    if route.path == ENDLESS:
        with client.stream(**request) as answer:
            text = next(answer.iter_text()) if answer.status_code == 200 else answer.read().decode()
            return answer.status_code, text
    whole = client.request(**request)
    return whole.status_code, whole.text
