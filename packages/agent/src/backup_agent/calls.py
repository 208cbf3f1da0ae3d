"""Calls: run the engine for a waiting caller and stream its output. A call ends with its connection.

A caller may also list the names in a folder, to choose what to back up or where to restore.
"""

import base64
import json
import logging
import os
import select
import subprocess
import threading
import time
import zlib
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from typing import Any

from backup_agent import private_files
from backup_agent.client import Link, NoAnswer, NotAllowed, Refusal, TooLarge, Unknown
from backup_agent.engines import Engines
from backup_agent.job_payload import UnsupportedJob, open_repository, payload_of
from backup_agent.places import Places
from backup_agent.runtime_api import RuntimeApi
from backup_agent.secret_store import SecretStore
from backup_engine import requests
from backup_engine.chunks import commands as chunk_commands
from backup_engine.command import Command
from backup_engine.compiled import run_compiled
from backup_engine.detect import EngineNotInstalled, EngineUnsupported
from backup_engine.far.agent_call import ONCE
from backup_engine.frozen import frozen
from backup_engine.interface import Engine
from backup_engine.process import ExitRecord, Spool, remove_spools
from backup_engine.requests import InvalidRequest, RepositoryLocation
from backup_jobs import folders
from backup_protocol import CallBlock, JobKind, Malformed, OfferedCall, Payload, SecretMissing, read
from backup_protocol.calls import CALL_METHODS, ERRORS, HERE_SECONDS, LOOK, OUTPUT, PACKED_OUTPUT
from backup_protocol.frames import END, HERE, frame

log = logging.getLogger(__name__)

MOST_AT_ONCE = 8
BLOCK = 1 << 18
LOOK_SECONDS = 0.2
ENDING_SECONDS = 35.0
CONFIRM_EVERY_SECONDS, CONFIRM_AGAIN_SECONDS = 15.0, 5.0
"""Interval at which a running call is confirmed, and the pause after an attempt without an answer."""
UNCONFIRMED_SECONDS = 60.0
"""After this time without an answer the engine is stopped, so that it has ended when the service gives up the call."""
CUT_SECONDS = 2.0
FOLDER_SECONDS = 25.0
"""Longer than listing a folder takes, unless a file system does not respond."""
PACKING_LEVEL = 1
CANNOT, NOT_FOUND = 2, 127
REQUESTS: Mapping[str, type[Any]] = {
    "list_archives": requests.ListArchivesRequest,
    "info": requests.InfoRequest,
    "list_files": requests.ListFilesRequest,
    "diff": requests.DiffRequest,
    "export_tar": requests.ExportTarRequest,
    "extract": requests.ExtractRequest,
    "key_export": requests.KeyExportRequest,
    "prune": requests.PruneRequest,
    "delete_archive": requests.DeleteArchiveRequest,
    "undelete_archive": requests.UndeleteArchiveRequest,
    "compact": requests.CompactRequest,
    "read_chunks": requests.ReadChunksRequest,
    "try_chunks": requests.TryChunksRequest,
}
assert REQUESTS.keys() == CALL_METHODS
SENT_AS_IT_IS = frozenset({"export_tar", "extract"})
"""File contents often do not compress; listings always do."""


class Calls:
    """Runs calls, each in its own thread. The service offers a call until its output arrives; each runs only once."""

    def __init__(self, places: Places, api: RuntimeApi, engines: Engines, stopping: threading.Event) -> None:
        self._places = places
        self._api = api
        self._engines = engines
        self._stopping = stopping
        self._lock = threading.Lock()
        self._running: set[str] = set()
        remove_spools(places.calls)  # these engines ended with the previous agent, which was reading their output

    def take(self, calls: tuple[OfferedCall, ...]) -> bool:
        """Start new calls. Return False if there are none."""
        taken = [call for call in calls if self._begin(call)]
        for call in taken:
            try:
                threading.Thread(target=self._run, args=(call,), name=f"call-{call.id}", daemon=True).start()
            except RuntimeError as error:
                log.warning("A call has to wait: %s", error)
                with self._lock:
                    self._running.discard(call.id)
        return bool(taken)

    def _begin(self, call: OfferedCall) -> bool:
        with self._lock:
            if call.id in self._running or len(self._running) >= MOST_AT_ONCE:
                return False
            self._running.add(call.id)
            return True

    def _run(self, call: OfferedCall) -> None:
        run = _Run(Spool(self._places.calls / call.id), self._stopping, lambda: self._api.confirm_call(call.id))
        try:
            private_files.make_folder(self._places.calls)
            if LOOK in call.payload:
                self._api.call_output(call.id, folder_answer(call.payload[LOOK]))
            else:
                self._api.call_output(call.id, run.frames(lambda: self._command(call)), run.link)
        except TooLarge as refusal:
            log.warning("The result of a call could not be sent: %s", refusal)
            run.close()
            self._send_cause(call, refusal)
        except (NoAnswer, Refusal) as failure:
            log.info("A call failed: %s", failure)
        except Exception:  # one faulty call must not stop the agent
            log.exception("The result of a call cannot be sent.")
        finally:
            run.close()
            with self._lock:
                self._running.discard(call.id)

    def _send_cause(self, call: OfferedCall, refusal: TooLarge) -> None:
        """Send the caller the reason in place of the output that was too large."""
        try:
            self._api.call_output(call.id, _could_not(str(refusal), CANNOT))
        except (NoAnswer, Refusal) as failure:
            log.info("The cause could not be sent either: %s", failure)

    @property
    def is_busy(self) -> bool:
        return bool(self._running)

    def _command(self, call: OfferedCall) -> "_Asked":
        """Build the command of a call. Raises only errors that `_Run` can report."""
        payload = payload_of(call.payload, call.payload.get("secrets") or {}, kinds=(JobKind.ENGINE_CALL,))
        opened = open_repository(payload, SecretStore(self._places).get)
        engine = self._engines.engine(payload.repository.engine_version)
        method, request = _request(payload)
        command = _made(engine, method, opened.location, request)
        kept_here = not payload.secrets  # the service redacts its own secrets, and more precisely
        redact = opened.environment.redactor.redact if kept_here else None
        return _Asked(opened.environment.apply_to(command), method not in SENT_AS_IT_IS, redact, method in ONCE)


def _made(engine: Engine, method: str, location: RepositoryLocation, request: Any) -> Command:
    """Raise InvalidRequest or EngineUnsupported."""
    if method == "try_chunks":
        return chunk_commands.selftest_command(engine.program)
    if method == "read_chunks":
        return chunk_commands.read_command(engine, location, request)
    command: Command = getattr(engine, method)(location, request)
    if isinstance(request, requests.ListFilesRequest | requests.ExportTarRequest):
        return chunk_commands.narrowed(command, request.paths)
    return command


def _request(payload: Payload) -> tuple[str, Any]:
    block = payload.block
    assert isinstance(block, CallBlock)
    if block.method not in REQUESTS:
        raise UnsupportedJob(f"This agent does not run {block.method!r} as a call; update the agent.")
    try:
        request = read(REQUESTS[block.method], json.loads(block.request))
    except (ValueError, RecursionError) as error:
        raise UnsupportedJob(f"The call cannot be read: {error}.") from error
    if isinstance(request, requests.PruneRequest) and not request.dry_run:
        raise UnsupportedJob("Agents prune in jobs, not in calls.")
    if isinstance(request, requests.ExtractRequest) and not (request.dry_run or request.stdout):
        raise UnsupportedJob("Agents write files in jobs, not in calls.")
    return block.method, request


@frozen
class _Asked:
    command: Command
    is_packed: bool
    redact: Callable[[bytes], bytes] | None
    changes_repository: bool


class _Run:
    """One engine run whose output is read here; the engine does not outlive its reader."""

    def __init__(self, spool: Spool, stopping: threading.Event, confirm: Callable[[], None]) -> None:
        self._spool = spool
        self._stopping = stopping
        self._confirm = confirm
        self.link = Link()
        self._unwanted, self._ended = threading.Event(), threading.Event()
        self._child: Any = None
        self._descriptor: int | None = None
        self._sent_bytes = 0

    def frames(self, make: Callable[[], _Asked]) -> Iterator[bytes]:
        yield frame(HERE, b"")
        try:
            asked = make()
        except (UnsupportedJob, SecretMissing, InvalidRequest, EngineUnsupported, Malformed) as error:
            yield from _could_not(str(error), CANNOT)
            return
        except EngineNotInstalled as error:
            yield from _could_not(str(error), NOT_FOUND)
            return
        if asked.changes_repository:
            self._confirm()
        threading.Thread(target=self._watch, name="call-watch", daemon=True).start()
        self._child, self._descriptor = self._spool.launch_piped(asked.command)
        yield from self._output(asked)
        yield from self._errors(asked, to_the_end=True)
        record = self._spool.exit_record()
        if record is not None:  # without a record the outcome is unknown, so send none
            yield from _end(record)

    def _output(self, asked: _Asked) -> Iterator[bytes]:
        assert self._descriptor is not None
        poller = select.poll()
        poller.register(self._descriptor, select.POLLIN)
        last_sign = time.monotonic()
        while not self._stopping.is_set():
            if poller.poll(LOOK_SECONDS * 1000):
                block = os.read(self._descriptor, BLOCK)
                if not block:
                    return
                packed = asked.is_packed
                yield frame(PACKED_OUTPUT if packed else OUTPUT, _packed(block) if packed else block)
                last_sign = time.monotonic()
            elif time.monotonic() - last_sign > HERE_SECONDS:
                yield frame(HERE, b"")
                last_sign = time.monotonic()
            yield from self._errors(asked)
            if self._unwanted.is_set():
                self.close()  # before the link: once that is cut, the service counts the engine as ended
                raise NoAnswer("The call is no longer wanted.")
        raise NoAnswer("The agent stops.")

    def _watch(self) -> None:
        """End the call when nobody waits for it any more, or when the service has not answered for a while.

        The thread that sends the output may be blocked for much longer: by a connection that was cut without notice, or
        because the caller pauses.
        """
        answered_at, pause = time.monotonic(), CONFIRM_EVERY_SECONDS
        while not self._ended.wait(pause):
            try:
                self._confirm()
                answered_at, pause = time.monotonic(), CONFIRM_EVERY_SECONDS
            except Unknown:
                break
            except (NoAnswer, NotAllowed):
                pause = CONFIRM_AGAIN_SECONDS
                if time.monotonic() - answered_at > UNCONFIRMED_SECONDS:
                    break
        self._unwanted.set()
        if not self._ended.wait(CUT_SECONDS):
            self.link.cut()

    def _errors(self, asked: _Asked, *, to_the_end: bool = False) -> Iterator[bytes]:
        """Yield complete lines of the engine's error stream; with `to_the_end`, also a last line without a newline."""
        while block := self._new_errors(to_the_end):
            self._sent_bytes += len(block)
            yield frame(ERRORS, asked.redact(block) if asked.redact else block)
            if not to_the_end:
                return

    def _new_errors(self, to_the_end: bool) -> bytes:
        try:
            with self._spool.err.open("rb") as file:
                file.seek(self._sent_bytes)
                block = file.read(BLOCK)
        except FileNotFoundError:
            return b""
        return block if to_the_end else block[: block.rfind(b"\n") + 1]

    def close(self) -> None:
        """Close the output, which stops a running engine, and wait for it."""
        self._ended.set()
        if self._descriptor is not None:
            os.close(self._descriptor)
            self._descriptor = None
            deadline = time.monotonic() + ENDING_SECONDS
            while not self._child.wait(LOOK_SECONDS) and time.monotonic() < deadline:
                continue
        if not self._spool.is_alive():
            with suppress(OSError):
                self._spool.remove()


def folder_answer(question: object) -> Iterator[bytes]:
    """Answer a question about folders in a separate process, so that an unresponsive file system blocks nothing
    else.
    """
    yield frame(HERE, b"")
    text = base64.b64encode(json.dumps(question).encode()).decode()
    try:
        program = subprocess.Popen(
            [*run_compiled(folders.__file__), text],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
        output, _ = program.communicate(timeout=FOLDER_SECONDS)
    except subprocess.TimeoutExpired:
        program.kill()  # do not wait for it: it may be stuck in the kernel
        yield from _could_not("Reading the folder timed out.", CANNOT)
        return
    except OSError as error:
        yield from _could_not(f"The folder cannot be read: {error}.", CANNOT)
        return
    yield frame(PACKED_OUTPUT, _packed(output))
    yield frame(END, json.dumps({"code": program.returncode if program.returncode >= 0 else CANNOT}).encode())


def _packed(block: bytes) -> bytes:
    return zlib.compress(block, PACKING_LEVEL)


def _could_not(message: str, code: int) -> Iterator[bytes]:
    yield frame(ERRORS, message.encode("utf-8", "replace") + b"\n")
    yield frame(END, json.dumps({"code": code}).encode())


def _end(record: ExitRecord) -> Iterator[bytes]:
    if record.exec_error is not None:
        yield from _could_not(f"The engine could not be started there: {record.exec_error}", NOT_FOUND)
    else:
        yield frame(END, json.dumps({"code": record.code, "signal": record.signal}).encode())
