"""Checks on the engine's own machine, right before the engine runs and right after it has ended.

Loaded by ``shim.py``, and copied with it to other machines: it imports only the standard library, nothing of this
package, and must run under Python 3.9. Only rare cases import modules such as ``json`` and ``re``, which take longer to
load than everything else. A guard is a record in the command:

==============  ======================================================================================================
``major``       the engine's major version
``engine_id``   the id that the repository must have; None if it is not known yet
``path``        the repository's folder on this machine; None if it is stored elsewhere, so only the engine knows its id
``program``     the engine
``probe``       arguments that make the engine print the id of a repository that is stored elsewhere
``must_tell``   whether a failed probe ends the run; False for breaking locks, as a lock may be why the probe fails
``tells_id``    whether the output contains the repository's id, so that a command that only reads needs no probe
``older``       ``refuse``: leave the decision to the engine; ``accept``: make the engine forget that it has seen a
                newer state; ``look``: let the engine use temporary records of its own
==============  ======================================================================================================

By its own record of a repository (the "security directory"), the engine refuses a repository that is older than the
last state it has seen. Major 2 runs several engines on one repository at the same time. An engine that loaded the
repository's state before another recorded a newer one would mistake the repository for an older one. So each run of
major 2 gets a copy of the record from before the run, and afterwards its findings are merged back: never more than the
repository is certain to contain by then.
"""

from __future__ import annotations

import fcntl
import os
import time

TYPE_CHECKING = False
if TYPE_CHECKING:  # the module of that name takes longer to load than all others together
    from typing import Any

REPLACED = "Guard.RepositoryReplaced"
LOCK_HOLDER = "Guard.LockHolder"
NAME = "backup_engine.repository_guard"
REFUSED = 2
LARGEST_FILE = 1 << 16
LARGEST_PROBE = 1 << 20
"""Limit in bytes for an engine's answer about its repository's id. An engine that writes more is stopped."""
LOOK_SECONDS = 0.2
MOST_HOLDERS = 5
RECORD = ("key-type", "location", "manifest-timestamp")
TIMESTAMP = "manifest-timestamp"
PRIVATE, LENT, PRIVATE_CACHE, PROBE = "security", "lent", "cache", "probe"
OUTPUT_END = 1 << 16
ID_AT_THE_END = rb'"repository":\s*\{[^{}]*"id":\s*"([0-9a-f]{64})"'
LOCK_CODES = (2, 70, 71, 72, 73, 74, 75)


class Refused(Exception):
    """The engine must not run. ``lines`` are what it would have logged, ``code`` its exit code."""

    def __init__(self, lines: bytes, code: int = REFUSED) -> None:
        super().__init__(code)
        self.lines = lines
        self.code = code


# --- before the run ---------------------------------------------------------------------------------------------------


def prepare(guard: dict[str, Any], environment: dict[str, str], probe_environment: dict[str, str] | None) -> None:
    """Check the repository and adjust the environment, in the process that becomes the engine. Raise Refused."""
    expected = guard.get("engine_id")
    found = identify(guard, probe_environment)
    if expected and found and found != expected:
        raise Refused(replaced(expected, found))
    known = expected or found
    known = known if known and is_engine_id(known) else None
    if guard.get("older") == "look":
        environment["BORG_SECURITY_DIR"] = os.path.join(os.getcwd(), PRIVATE)
        environment["BORG_CACHE_DIR"] = os.path.join(os.getcwd(), PRIVATE_CACHE)
    elif known:
        if guard.get("older") == "accept":
            forget_newer_state(guard["major"], environment, known)
        if guard["major"] == 2:
            lend_record(environment, known)
    if guard.get("path") and left_by_dead_engine_of_this_machine(guard["path"], environment.get("BORG_HOST_ID")):
        environment.pop("BORG_HOST_ID", None)  # under its default name, the engine removes the lock itself


def needs_probe(guard: dict[str, Any], is_piped: bool) -> bool:
    """Whether the engine must first report the id of its repository."""
    if guard.get("path"):
        return False
    reports_id = guard.get("tells_id") and not is_piped
    return guard.get("older") == "accept" or bool(guard.get("engine_id") and not reports_id)


def identify(guard: dict[str, Any], probe_environment: dict[str, str] | None) -> str | None:
    """The id of the repository that is currently there; None if there is none, or if no check needs it."""
    if guard.get("path"):
        return id_in_folder(guard["path"])
    if probe_environment is None:
        return None
    return probed(guard, probe_environment)


def id_in_folder(path: str) -> str | None:
    """The id in a repository's own files, for either major, as the engine would read it."""
    config = os.path.join(path.encode("utf-8", "surrogateescape"), b"config")
    for found in (id_in_config(read(config)), read(os.path.join(config, b"id"))):
        text = (found or b"").strip().lower().decode("ascii", "replace")
        if is_engine_id(text):
            return text
    return None


def id_in_config(content: bytes | None) -> bytes | None:
    """The id in the configuration file of major 1.

    Only a file as the engine writes it is read without a parser: in others, more than one line may look like the id.
    """
    if not content:
        return None
    is_usual = content.startswith(b"[repository]\n") and content.count(b"[") == 1 and b"\r" not in content
    if is_usual and b"\nid = " in content and content.lower().count(b"\nid") == 1:
        return content.partition(b"\nid = ")[2].partition(b"\n")[0]
    import configparser

    parser = configparser.ConfigParser(interpolation=None)
    text = content.decode("utf-8", "surrogateescape").replace("\r\n", "\n").replace("\r", "\n")
    try:
        parser.read_string(text)
        return parser.get("repository", "id").encode("utf-8", "surrogateescape")
    except (configparser.Error, ValueError):
        return None


def is_engine_id(text: str) -> bool:
    return len(text) == 64 and not text.strip("0123456789abcdef")


def probed(guard: dict[str, Any], environment: dict[str, str]) -> str | None:
    """Ask the engine for the id. Raise Refused with the engine's own message if it cannot open the repository."""
    import contextlib
    import subprocess

    if guard.get("older") != "refuse":
        # Only the identity of the repository matters here, not its age.
        folder = os.path.join(os.getcwd(), PROBE)
        environment = {
            **environment,
            "BORG_SECURITY_DIR": os.path.join(folder, PRIVATE),
            "BORG_CACHE_DIR": os.path.join(folder, PRIVATE_CACHE),
        }
    with open("probe.out", "w+b") as output, open("probe.err", "w+b") as errors:
        run = subprocess.Popen(
            [guard["program"], *guard["probe"]],
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=errors,
            close_fds=False,
        )
        while run.poll() is None:
            with contextlib.suppress(subprocess.TimeoutExpired):
                run.wait(LOOK_SECONDS)
            if max(os.fstat(stream.fileno()).st_size for stream in (output, errors)) > LARGEST_PROBE:
                run.kill()
        found = reported_id(beginning(output))
        text = beginning(errors)
    for name in ("probe.out", "probe.err"):
        os.unlink(name)
    if found is None and guard.get("must_tell", True):
        code = run.returncode if run.returncode > 0 else 128 - run.returncode
        raise Refused(text, code or REFUSED)
    return found


def beginning(stream: Any) -> bytes:
    stream.seek(0)
    content: bytes = stream.read(LARGEST_PROBE)
    return content


def reported_id(output: bytes) -> str | None:
    """The repository's id in the engine's JSON output."""
    import json

    try:
        found = json.loads(output)["repository"]["id"]
    except (ValueError, KeyError, TypeError, RecursionError):
        return None
    return found if isinstance(found, str) and is_engine_id(found) else None


def replaced(expected: str, found: str) -> bytes:
    text = f"Another repository is at this place: it has the id {found}, but {expected} was expected."
    return message("ERROR", REPLACED, text)


def message(level: str, msgid: str, text: str, **more: object) -> bytes:
    """A log line in the engine's own format."""
    import json

    record = {"type": "log_message", "time": time.time(), "levelname": level, "name": NAME, "msgid": msgid}
    return json.dumps({**record, "message": text, **more}).encode() + b"\n"


# --- the engine's record of a repository ------------------------------------------------------------------------------


def record_folder(major: int, environment: dict[str, str], engine_id: str) -> str:
    base = environment["BORG_BASE_DIR"]
    below = (".config", "borg") if major == 1 else (".local", "share", "borg")
    return os.path.join(base, *below, "security", engine_id)


def forget_newer_state(major: int, environment: dict[str, str], engine_id: str) -> None:
    """Remove the record of how new the repository was.

    The counter that keeps major 1 from using an encryption nonce twice stays.
    """
    import re

    unlink(os.path.join(record_folder(major, environment, engine_id), TIMESTAMP))
    unlink(os.path.join(record_folder(major, environment, engine_id), ".pending"))
    config = os.path.join(environment["BORG_BASE_DIR"], ".cache", "borg", engine_id, "config")
    content = read(config)
    if content is not None:
        write(config, re.sub(rb"(?m)^timestamp\s*=.*\n?", b"", content))


def lend_record(environment: dict[str, str], engine_id: str) -> None:
    """Give the engine a copy of the record, and lock the original in shared mode to show that a copy is in use."""
    shared = record_folder(2, environment, engine_id)
    os.makedirs(shared, mode=0o700, exist_ok=True)
    private, lent = (os.path.join(os.getcwd(), folder, engine_id) for folder in (PRIVATE, LENT))
    os.makedirs(private, mode=0o700, exist_ok=True)
    os.makedirs(lent, mode=0o700, exist_ok=True)
    using = os.open(os.path.join(shared, ".runs"), os.O_RDWR | os.O_CREAT, 0o600)
    fcntl.flock(using, fcntl.LOCK_SH)
    os.set_inheritable(using, True)
    for name in RECORD:
        content = read(os.path.join(shared, name))
        if content is not None:
            for folder in (private, lent):
                write(os.path.join(folder, name), content, synced=False)
    environment["BORG_SECURITY_DIR"] = os.path.join(os.getcwd(), PRIVATE)


def take_record_back(environment: dict[str, str]) -> None:
    """Merge the findings of a run of major 2 into the shared record.

    If several runs overlap, the one that computed the newest state need not be the last one to write. So while others
    are running, only the oldest of their states is noted; the last run transfers it to the record.
    """
    for engine_id in listed(LENT):
        shared = record_folder(2, environment, engine_id)
        learnt = {name: what_changed(engine_id, name) for name in RECORD}
        for name in ("key-type", "location"):
            if content := learnt[name]:
                write(os.path.join(shared, name), content)
        put_timestamp_back(shared, learnt[TIMESTAMP])


def what_changed(engine_id: str, name: str) -> bytes | None:
    """The value that the run has written to a file of its record; None if the file is unchanged."""
    content = read(os.path.join(PRIVATE, engine_id, name))
    return content if content != read(os.path.join(LENT, engine_id, name)) else None


def put_timestamp_back(shared: str, learnt: bytes | None) -> None:
    pending, current = os.path.join(shared, ".pending"), os.path.join(shared, TIMESTAMP)
    guarding = os.open(os.path.join(shared, ".merging"), os.O_RDWR | os.O_CREAT, 0o600)
    runs = os.open(os.path.join(shared, ".runs"), os.O_RDWR | os.O_CREAT, 0o600)
    try:
        fcntl.flock(guarding, fcntl.LOCK_EX)
        certain = min(filter(None, (learnt, read(pending))), default=None)
        if certain is None:
            return
        try:
            fcntl.flock(runs, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            write(pending, certain)
            return
        if certain > (read(current) or b""):
            write(current, certain)
        unlink(pending)
    finally:
        os.close(runs)
        os.close(guarding)


# --- after the run ----------------------------------------------------------------------------------------------------


def conclude(guard: dict[str, Any], environment: dict[str, str], code: int) -> Refused | None:
    """After the engine has ended, in the shim: return lines to add to its output and the real exit code, if they
    differ.
    """
    if guard["major"] == 2:
        take_record_back(environment)
    if any(os.path.isdir(folder) for folder in (PRIVATE, PROBE)):
        for folder in (PRIVATE, LENT, PRIVATE_CACHE, PROBE):
            remove_tree(folder)
    if code in LOCK_CODES and guard.get("path"):
        return Refused(b"".join(map(holder_message, lock_holders(guard["path"])[:MOST_HOLDERS])), code)
    return reported_replacement(guard) if code == 0 else None


def reported_replacement(guard: dict[str, Any]) -> Refused | None:
    """If the output contains the repository's id, refuse and discard the output of a different repository."""
    expected = guard.get("engine_id")
    if guard.get("path") or not guard.get("tells_id") or not expected or not os.path.exists("out"):
        return None
    import re

    with open("out", "r+b") as output:
        output.seek(max(0, output.seek(0, os.SEEK_END) - OUTPUT_END))
        found = re.findall(ID_AT_THE_END, output.read())
        if not found or found[-1].decode() == expected:
            return None
        output.truncate(0)
    return Refused(replaced(expected, found[-1].decode()))


# --- locks ------------------------------------------------------------------------------------------------------------


def lock_holders(path: str) -> list[dict[str, Any]]:
    """Holders of the locks of a repository in a folder of this machine: host, pid, and since when, if known."""
    return [*_of_exclusive_folder(path), *_of_roster(path), *_of_lock_objects(path)]


def _of_exclusive_folder(path: str) -> list[dict[str, Any]]:
    folder = os.path.join(path, "lock.exclusive")
    found = []
    for name in listed(folder):
        import re  # only here: usually there are no locks

        match = re.fullmatch(r"(?P<host>.+)\.(?P<pid>\d+)-[0-9a-f]+", name)
        if match:
            found.append(
                {"host": match["host"], "pid": int(match["pid"]), "since": changed(os.path.join(folder, name))}
            )
    return found


def _of_roster(path: str) -> list[dict[str, Any]]:
    file = os.path.join(path, "lock.roster")
    content = read(file)
    if not content:
        return []
    import json

    try:
        roster = json.loads(content)
        entries = [entry for kind in ("exclusive", "shared") for entry in roster.get(kind, ())]
        return [{"host": str(host), "pid": int(pid), "since": changed(file)} for host, pid, _ in entries]
    except (ValueError, TypeError, AttributeError, OverflowError, RecursionError):
        return []


def _of_lock_objects(path: str) -> list[dict[str, Any]]:
    folder = os.path.join(path, "locks")
    found = []
    for name in listed(folder):
        import json

        try:
            lock = json.loads(read(os.path.join(folder, name)) or b"")
            found.append({"host": str(lock["hostid"]), "pid": int(lock["processid"]), "since": str(lock["time"])})
        except (ValueError, TypeError, KeyError, OverflowError, RecursionError):
            continue
    return found


def left_by_dead_engine_of_this_machine(path: str, own_name: str | None) -> bool:
    """Whether a lock was taken under the default name of an engine on this machine, and its process is gone."""
    others = [holder for holder in lock_holders(path) if holder["host"] != own_name]
    if not others:
        return False
    name = name_of_this_machine()
    return any(holder["host"] == name and not is_alive(holder["pid"]) for holder in others)


def name_of_this_machine() -> str:
    """The engine's default name: the full host name and the address of the network card."""
    import contextlib
    import socket
    import uuid

    name = socket.gethostname()
    with contextlib.suppress(OSError):
        for entry in socket.getaddrinfo(name, None, 0, socket.SOCK_DGRAM, 0, socket.AI_CANONNAME):
            if entry[3]:
                name = entry[3]
                break
    return f"{name}@{uuid.getnode()}"


def is_alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except (OSError, OverflowError):
        return True
    return True


def holder_message(holder: dict[str, Any]) -> bytes:
    since = f" since {holder['since']}" if holder["since"] else ""
    text = f"The lock is held by process {holder['pid']} of {holder['host']}{since}."
    return message("INFO", LOCK_HOLDER, text)


# --- files ------------------------------------------------------------------------------------------------------------


def listed(folder: str) -> list[str]:
    try:
        return sorted(os.listdir(folder))
    except OSError:
        return []


def changed(file: str) -> str | None:
    try:
        return time.strftime("%Y-%m-%dT%H:%M:%S+00:00", time.gmtime(os.stat(file).st_mtime))
    except OSError:
        return None


def read(file: str | bytes) -> bytes | None:
    try:
        with open(file, "rb") as stream:
            return stream.read(LARGEST_FILE)
    except OSError:
        return None


def unlink(file: str) -> None:
    try:
        os.unlink(file)
    except FileNotFoundError:
        return


def remove_tree(folder: str) -> None:
    """Remove a folder with everything in it, as far as possible. Links are removed, not followed."""
    for place, folders, files in os.walk(folder, topdown=False):
        for action, path in (
            *((os.unlink, os.path.join(place, name)) for name in (*files, *folders)),
            (os.rmdir, place),
        ):
            try:
                action(path)
            except OSError:  # also for each folder in this one, which is gone already
                continue


def write(file: str, content: bytes, *, synced: bool = True) -> None:
    part = f"{file}.{os.getpid()}"
    with os.fdopen(os.open(part, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "wb") as stream:
        stream.write(content)
        stream.flush()
        if synced:
            os.fsync(stream.fileno())
    os.replace(part, file)
