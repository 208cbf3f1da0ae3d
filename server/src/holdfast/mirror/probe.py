"""Tests a remote: one verdict per step, with a remedy for the one that fails."""

import contextlib
import secrets
from collections.abc import Callable
from typing import TypeVar

from backup_engine.frozen import frozen
from backup_engine.rclone import OTHER, trouble_of
from backup_engine.redact import Redactor
from holdfast.access.vault import SecretUnreadable
from holdfast.errors import HoldfastError
from holdfast.mirror.models import RcloneRemote
from holdfast.mirror.rclone import IMPATIENT, NOT_FOUND, Access, Answer, place
from holdfast.mirror.rclone_log import RcloneLog
from holdfast.mirror.remotes import Remotes
from holdfast.mirror.schemas import ProbeStep, RemoteVerdict, StepName

T = TypeVar("T")
STEPS: tuple[StepName, ...] = ("program", "configuration", "reach", "credentials", "write", "read", "delete")


class _Failed(Exception):
    def __init__(self, step: StepName, key: str, message: str, rclone_message: str | None = None) -> None:
        super().__init__(step)
        self.verdict = ProbeStep(
            step=step,
            verdict="failed",
            key=key,
            message=message,
            details={"said": rclone_message} if rclone_message else None,
        )


@frozen
class Probe:
    """Writes a small object, reads it back and deletes it; existing files are left alone."""

    remotes: Remotes

    def run(self, remote: RcloneRemote, path: str) -> RemoteVerdict:
        try:
            self._run(remote, path)
        except _Failed as failed:
            return _verdict(failed.verdict)
        return _verdict(None)

    def _run(self, remote: RcloneRemote, path: str) -> None:
        self._asked("program", self.remotes.rclone.path)
        self._asked("configuration", lambda: self.remotes.provider(remote.provider))
        try:
            access = self.remotes.access(remote)
        except SecretUnreadable as error:
            raise _Failed("configuration", error.key, error.message) from error
        if remote.provider == "local" and not path.startswith("/"):
            raise _Failed("configuration", "mirror.bad_path", "Testing a local remote requires an absolute path.")
        listed = self._ask("reach", access, "lsf", "--max-depth", "1", place(path))
        if listed.code not in (0, NOT_FOUND):
            raise self._refused(listed, access)
        name, content = f"holdfast-probe-{secrets.token_hex(8)}", secrets.token_bytes(64)
        try:
            self._write(access, path, name, content)
            self._read(access, path, name, content)
        except _Failed:
            with contextlib.suppress(_Failed):
                self._delete(access, path, name, folder_is_new=listed.code == NOT_FOUND)
            raise
        self._delete(access, path, name, folder_is_new=listed.code == NOT_FOUND)

    def _write(self, access: Access, path: str, name: str, content: bytes) -> None:
        written = self._ask("write", access, "rcat", place(path, name), given=content)
        if written.code != 0:
            trouble = trouble_of(_log_of(written, access).reasons)
            sentence = "Writing there failed; check the path and the permissions of the remote's user."
            message = sentence if trouble is OTHER else trouble.sentence
            raise _Failed("write", "rclone.write_failed", message, _message_of(written, access))

    def _read(self, access: Access, path: str, name: str, content: bytes) -> None:
        read = self._ask("read", access, "cat", place(path, name))
        if read.code != 0 or read.output != content:
            sentence = "The test object could not be read back unchanged; the remote cannot hold a mirror."
            raise _Failed("read", "rclone.read_back_failed", sentence, _message_of(read, access))

    def _delete(self, access: Access, path: str, name: str, *, folder_is_new: bool) -> None:
        deleted = self._ask("delete", access, "deletefile", place(path, name))
        if folder_is_new:
            self._ask("delete", access, "rmdir", place(path))
        if deleted.code != 0:
            sentence = f"The test file {name} could not be deleted; allow deletion there and remove it."
            raise _Failed("delete", "rclone.delete_failed", sentence, _message_of(deleted, access))

    def _refused(self, answer: Answer, access: Access) -> _Failed:
        trouble = trouble_of(_log_of(answer, access).reasons)
        step: StepName = "write" if trouble.step == "storage" else trouble.step
        return _Failed(step, trouble.key, trouble.sentence, _message_of(answer, access))

    def _ask(self, step: StepName, access: Access, *arguments: str, given: bytes = b"") -> Answer:
        rclone = self.remotes.rclone
        return self._asked(step, lambda: rclone.ask((*arguments, *IMPATIENT), access, given=given))

    def _asked(self, step: StepName, question: Callable[[], T]) -> T:
        try:
            return question()
        except HoldfastError as error:
            raise _Failed(step, error.key, error.message) from error


def _log_of(answer: Answer, access: Access) -> RcloneLog:
    return RcloneLog(Redactor(access.secrets.values())).read_all(answer.stderr)


def _message_of(answer: Answer, access: Access) -> str | None:
    complaints = _log_of(answer, access).complaints
    return complaints[-1][:1000] if complaints else None


def _verdict(failed: ProbeStep | None) -> RemoteVerdict:
    """All steps in order: those before the failed one passed, those after it were not tried."""
    at = STEPS.index(failed.step) if failed else len(STEPS)
    passed = [ProbeStep(step=step, verdict="ok") for step in STEPS[:at]]
    skipped = [ProbeStep(step=step, verdict="skipped") for step in STEPS[at + 1 :]]
    return RemoteVerdict(ok=failed is None, steps=[*passed, *([failed] if failed else []), *skipped])
