"""Actions that are allowed only in certain places happen nowhere else."""

import ast
from collections.abc import Iterable, Iterator
from functools import cache
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
SOURCES = sorted(
    path for folder in (ROOT / "server" / "src", *ROOT.glob("packages/*/src")) for path in folder.rglob("*.py")
)

MAY_COMMIT = {"holdfast/storage/session.py"}

MAY_START_PROCESSES = {
    "backup_agent/calls.py": "reads folders in a separate process, because a file system may never respond",
    "backup_agent/commands/run.py": "replaces itself with a fresh copy in the same process, to release memory",
    "backup_agent/install/units.py": "has systemd or launchd start the agent",
    "backup_engine/process.py": "starts the shim",
    "backup_engine/shim.py": "runs the engine as its child",
    "backup_engine/repository_guard.py": "queries the engine for a repository's id where its files cannot be read",
    "backup_engine/far/pipe_into.py": "pipes the output of an engine into a program on another machine",
    "backup_engine/far/run.py": "keeps the connection to an engine on another machine",
    "backup_engine/far/remote_run.py": "starts the shim on the other machine",
    "backup_engine/far/helper_proxy.py": "keeps the connection to the chunk reader on another machine",
    "backup_engine/far/remote_helper.py": "starts the chunk reader on the other machine, with the engine's own Python",
    "backup_engine/feed.py": "runs, under the shim, an engine and the dumps that it reads",
    "backup_engine/chunks/narrowed.py": "executes the engine's program in its place if it cannot limit what is read",
    "backup_engine/detect.py": "runs a program to get its version",
    "backup_engine/bounded.py": "runs short commands of ssh and rclone, with bounded output",
    "holdfast/history/chunks/helper_process.py": "starts the chunk reader with the engine's own Python",
    "backup_engine/chunks/selftest_repository.py": "has the engine create a repository for the self-test",
    "holdfast/history/chunks/selftest.py": "compares the chunk reader with the engine before relying on it",
    "holdfast/execution/ssh.py": "runs commands on another machine by ssh, and reads its host key",
    "holdfast/notifications/deliver/apprise_child.py": "runs Apprise in a separate process, with a deadline",
    "holdfast/mirror/engine_rclone.py": "executes rclone for an engine that starts it itself",
    "holdfast/mirror/rclone.py": "runs short rclone commands during requests",
    "holdfast/entry/first_process.py": "continues in a child process if it is the first process of a container",
    "holdfast/kit/compute_process.py": "starts the process that runs long computations",
}
STARTS_PROCESSES = {
    *("subprocess", "multiprocessing", "pty", "asyncio.create_subprocess_exec", "asyncio.create_subprocess_shell"),
    *("os.system", "os.popen", "os.fork", "os.forkpty", "os.posix_spawn", "os.posix_spawnp"),
}
FAMILIES = ("os.exec", "os.spawn")

MAY_START_THREADS = {
    "holdfast/kit/supervisor.py": "starts every loop and restarts it",
    "holdfast/runner/loop.py": "executes an operation; recovery restarts it if its thread dies",
    "holdfast/history/chunks/helper_process.py": "reads the error output of one helper process until it ends",
    "holdfast/history/chunks/metadata_chunks.py": "reads ahead from one helper while its caller waits",
    "holdfast/access/passwords.py": "hashes passwords",
    "holdfast/notifications/deliver/http_request.py": "closes one connection at its deadline",
    "holdfast/notifications/deliver/addresses.py": "resolves one name, without a time limit, while its sender waits",
    "holdfast/access/last_used.py": "writes one batch; the next use submits another",
    "holdfast/schedules/running/machines.py": "tries several machines at once while its loop waits",
}
STARTS_THREADS = {"threading.Thread", "threading.Timer", "ThreadPoolExecutor", "concurrent.futures.ThreadPoolExecutor"}

MAY_WRITE_STATUS = {
    "holdfast/operations/queue.py",
    "holdfast/operations/transitions.py",
    "holdfast/operations/models.py",
    "holdfast/agents/store.py",  # of agents
    "holdfast/maintenance/wipe/store.py",  # of previews, which are not operations and have their own table
}


def name_in_package(path: Path) -> str:
    return path.as_posix().split("/src/", 1)[1]


@cache
def trees() -> tuple[tuple[str, ast.Module], ...]:
    return tuple((name_in_package(path), ast.parse(path.read_text(), str(path))) for path in SOURCES)


@cache
def nodes() -> tuple[tuple[str, tuple[ast.AST, ...]], ...]:
    """All nodes of each source, since finding them takes much longer than looking at them."""
    return tuple((name, tuple(ast.walk(tree))) for name, tree in trees())


def dotted(node: ast.expr) -> str:
    if isinstance(node, ast.Attribute):
        return f"{dotted(node.value)}.{node.attr}"
    return node.id if isinstance(node, ast.Name) else ""


def names_used(found: Iterable[ast.AST]) -> Iterator[str]:
    for node in found:
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            yield from (node.module, *(f"{node.module}.{alias.name}" for alias in node.names))
        elif isinstance(node, ast.Attribute):
            yield dotted(node)


def starts_processes(name: str) -> bool:
    return name in STARTS_PROCESSES or name.startswith(FAMILIES)


def test_the_sources_are_found() -> None:
    assert len(SOURCES) > 100
    assert MAY_COMMIT | MAY_WRITE_STATUS | set(MAY_START_PROCESSES) <= set(map(name_in_package, SOURCES))


def test_only_one_place_commits() -> None:
    commits = {
        name
        for name, found in nodes()
        for node in found
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "commit"
    }

    assert commits == MAY_COMMIT


def test_processes_are_started_only_in_the_listed_places() -> None:
    starting = {name for name, found in nodes() if any(map(starts_processes, names_used(found)))}

    assert starting == set(MAY_START_PROCESSES)


def test_threads_are_started_only_in_the_listed_places() -> None:
    starting = {
        name
        for name, found in nodes()
        if name.startswith("holdfast/") and STARTS_THREADS.intersection(names_called(found))
    }

    assert starting == set(MAY_START_THREADS)


def names_called(found: Iterable[ast.AST]) -> Iterator[str]:
    return (dotted(node.func) for node in found if isinstance(node, ast.Call))


def writes_status(node: ast.AST) -> bool:
    """`operation.status = …`, `Operation(status=…)`, `.values(status=…)`."""
    if isinstance(node, ast.Assign | ast.AnnAssign | ast.AugAssign):
        targets = node.targets if isinstance(node, ast.Assign) else [node.target]
        return any(isinstance(target, ast.Attribute) and target.attr == "status" for target in targets)
    if not isinstance(node, ast.Call):
        return False
    called = dotted(node.func).rpartition(".")[2] or getattr(node.func, "attr", "")
    given = {keyword.arg for keyword in node.keywords}
    return called in ("Operation", "values") and "status" in given


def test_the_status_of_an_operation_is_written_only_in_the_listed_places() -> None:
    writing = {name for name, found in nodes() if any(map(writes_status, found))}

    assert "holdfast/operations/transitions.py" in writing
    assert writing <= MAY_WRITE_STATUS


def test_the_rule_about_the_status_recognises_each_way_to_write_it() -> None:
    for text in ("operation.status = x", "models.Operation(status=x)", "update(Operation).where(y).values(status=x)"):
        assert any(map(writes_status, ast.walk(ast.parse(text)))), text
    assert not any(map(writes_status, ast.walk(ast.parse("Answer(status=operation.status)"))))
