"""The operation kind `hydrate`: rebuild a repository from its mirror in a new place, and prove that it is complete.

Until it is complete, the folder contains a note naming its owner, so that an interrupted hydrate can continue there and
nothing else is ever overwritten.
"""

import os
from dataclasses import replace
from pathlib import Path
from typing import Any

from backup_engine.rclone import NOT_THERE, OTHER
from backup_engine.requests import CheckRequest
from backup_jobs.work import warnings_of
from holdfast.mirror import errors, store
from holdfast.mirror.kind import mirror_kind
from holdfast.mirror.mirror_work import MirrorWork
from holdfast.mirror.remotes import Remotes
from holdfast.mirror.schemas import HydrateParams
from holdfast.operations.context import Context
from holdfast.operations.kinds import Kind
from holdfast.operations.locks import Access
from holdfast.operations.outcome import Outcome, TryAgain
from holdfast.operations.status import Status
from holdfast.repositories.location import Opener
from holdfast.repositories.work import RepositoryWork, success_status

NOTE = ".holdfast-hydrate"
UNEQUAL = (
    "mirror.verification_failed",
    "The copy does not match the mirror; start the hydrate again with the same destination.",
)
NOTHING_THERE = (
    "mirror.nothing_mirrored",
    "There is no repository at the mirror's location; run a sync first, or correct the mirror's path.",
)


def kind(remotes: Remotes, opener: Opener) -> Kind:
    return mirror_kind(
        name=store.HYDRATE,
        activity_word="rclone_hydrate",
        access=Access.CHANGE,
        params=HydrateParams,
        run=lambda context: _Hydrate(remotes, opener, context).run(),
        shows=("destination", "source", "transferred_bytes", "problems"),
    )


def check_destination(path: str, repository_uuid: str) -> Path:
    """The folder, if a hydrate may fill it. Raise Unprocessable."""
    folder = Path(os.path.normpath(path))
    if not path.startswith("/") or folder == Path("/"):
        raise errors.bad_destination("The destination must be an absolute path of a folder.")
    try:
        names = set(os.listdir(folder))  # noqa: PTH208 -- only names are needed
        note = (folder / NOTE).read_text() if NOTE in names else None
    except FileNotFoundError:
        return folder
    except OSError as error:
        raise errors.bad_destination(f"The destination cannot be used: {error.strerror}.") from error
    if names and note != repository_uuid:
        raise errors.bad_destination("The destination is not empty; choose an empty folder or one that does not exist.")
    return folder


class _Hydrate:
    """One attempt. `run` may be called again for the same attempt after a restart."""

    def __init__(self, remotes: Remotes, opener: Opener, context: Context) -> None:
        assert isinstance(context.params, HydrateParams)
        self._context = context
        self._params = context.params
        self._opener = opener
        self._work = MirrorWork.open(remotes, context)

    def run(self) -> Outcome | TryAgain:
        folder = self._prepared()
        work = self._work
        rules = ("--filter", f"- /{NOTE}")
        looked = work.ask("look", ("lsf", "--max-depth", "1", work.place))
        names = set(looked.result.stdout.read_text("utf-8", "replace").splitlines())
        if not names and (looked.succeeded or looked.trouble is NOT_THERE):
            return Outcome(Status.FAILED, *NOTHING_THERE)
        if bad := looked.bad_ending():
            return bad
        copied = work.transfer("copy", ("sync", work.place, str(folder), *rules), (0.0, 80.0), "Copying the mirror.")
        if bad := copied.bad_ending():
            return bad
        comparing = ("check", work.place, str(folder), *rules)
        compared = work.transfer("verify", comparing, (80.0, 85.0), "Comparing the copy with the mirror.")
        if bad := compared.bad_ending():
            unequal = bad.status is Status.FAILED and compared.trouble in (OTHER, NOT_THERE)
            return Outcome(Status.FAILED, *UNEQUAL, result=bad.result) if unequal else bad
        result = {
            "destination": str(folder),
            "source": work.shown_place,
            "transferred_bytes": copied.log.progress.bytes,
            "transferred_files": copied.log.progress.transfers,
        }
        return self._checked(folder, result)

    def _prepared(self) -> Path:
        """Create the folder and put the note in it. After a restart, the note exists or is no longer needed."""

        def prepare() -> dict[str, Any]:
            folder = check_destination(self._params.destination, self._work.repository.uuid)
            try:
                folder.mkdir(parents=True, exist_ok=True, mode=0o700)
                (folder / NOTE).write_text(self._work.repository.uuid)
            except OSError as error:
                raise errors.bad_destination(f"The destination cannot be written to: {error.strerror}.") from error
            return {"folder": str(folder)}

        return Path(str(self._context.once("folder", prepare)["folder"]))

    def _checked(self, folder: Path, result: dict[str, Any]) -> Outcome | TryAgain:
        """Let the engine check the copy: it must be intact, not just identical."""
        repository = self._work.repository
        location = replace(self._opener.location(repository, relocated_ok=True, older="look"), path=str(folder))
        engine = self._opener.engine(repository)
        self._context.report(progress_percent=85.0, message="Checking the copy with the engine.")
        step = self._context.step("check", engine.check(location, CheckRequest()))
        work = RepositoryWork(self._context, repository, engine, location)
        bad = work.ended_without_success(step)
        if isinstance(bad, Outcome):
            return replace(bad, result={**(bad.result or {}), **result})
        if bad is not None:
            return bad
        (folder / NOTE).unlink(missing_ok=True)
        return Outcome(success_status(step), result=result, warnings=warnings_of(step.accumulator))
