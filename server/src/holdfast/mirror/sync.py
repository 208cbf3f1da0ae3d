"""The operation kind `sync`: make the mirror equal to the repository.

What never changes goes first, then what refers to it, and only then is anything deleted: at each instant the mirror opens,
as it was before the sync or as it is after it. A repository that does not look sound is not mirrored.
"""

from functools import partial
from typing import Any

from backup_engine.outcome import SENTENCES
from backup_engine.rclone import NOT_THERE, OTHER
from holdfast.mirror import sanity, store
from holdfast.mirror.program import NOT_FOUND, place
from holdfast.mirror.remotes import Remotes
from holdfast.mirror.running import MirrorWork, Run
from holdfast.mirror.schemas import SyncParams
from holdfast.mirror.source import Survey, identity_of_config, survey
from holdfast.operations.context import Context
from holdfast.operations.kinds import Kind, Outcome, TryAgain, again_when_interrupted
from holdfast.operations.models import Operation
from holdfast.operations.status import LockMode, Status

IDENTITY_BYTES = "65536"
TURN_SECONDS = 0.5
LOCKED_SECONDS = 5.0
DELETING = "names"
"""The step that copies what refers to the data, and then deletes what the repository has no more."""
CHANGED_IN_PLACE = "immutable file modified"
TAKEN = (
    "mirror.destination_taken",
    "Something else lies at the mirror's place, and a sync would delete it; choose another path or empty it.",
)
CHANGED = (
    sanity.KEY,
    f"Files that never change once they are written are not what the mirror has of them. {sanity.OVERRIDE}",
)
UNEQUAL = (
    "mirror.verification_failed",
    "After the sync the mirror is not equal to the repository; check the repository, then sync again.",
)
WRITTEN_MEANWHILE = (
    "mirror.source_changed",
    "The repository has changed during the sync: another program writes to it, or its disk is gone.",
)


def kind(remotes: Remotes, install_id: str) -> Kind:
    return Kind(
        name=store.SYNC,
        category="mirror",
        activity_word="rclone_sync",
        limit_group="mirror",
        lock=LockMode.SHARED,
        beside_no_writer=True,
        params=SyncParams,
        run=lambda context: run(remotes, install_id, context),
        on_interrupted=again_when_interrupted,
        present=present,
    )


def present(operation: Operation) -> dict[str, Any]:
    progress, result = operation.progress or {}, operation.result or {}
    return {
        "speed": progress.get("speed"),
        "estimated_time_remaining": progress.get("estimated_time_remaining"),
        **{name: result.get(name) for name in ("destination", "transferred_bytes", "verified", "problems", "reasons")},
    }


def run(remotes: Remotes, install_id: str, context: Context) -> Outcome | TryAgain:
    """Syncs of one repository write to one place, so they do it one at a time, although they share the lane."""
    repository_id, own = context.operation.repository_id or 0, context.operation.id
    while True:
        with context.database.writing() as session:
            if store.take_turn(session, repository_id, own):
                break
        context.pause(TURN_SECONDS)
    return _Sync(remotes, install_id, context).run()


class _Sync:
    """One attempt. `run` may be called again for the same attempt after a restart."""

    def __init__(self, remotes: Remotes, install_id: str, context: Context) -> None:
        assert isinstance(context.params, SyncParams)
        self._context = context
        self._override = context.params.override_sanity
        self._install_id = install_id
        self._work = MirrorWork.open(remotes, context)
        self._layout = self._work.layout

    def run(self) -> Outcome | TryAgain:
        found = self._look("survey")
        if any(not holder.startswith(f"{self._install_id}.") for holder in found.locked_by):
            return TryAgain("engine.locked", SENTENCES["engine.locked"], delay_seconds=LOCKED_SECONDS)
        if bad := self._suspicious(found) or self._prepare(found):
            return bad
        runs: list[Run] = []
        for name, arguments, share, message in self._transfers(found):
            if name == DELETING and self._has_changed(found, "before"):  # a disk that is gone by now looks empty
                return TryAgain(*WRITTEN_MEANWHILE, delay_seconds=LOCKED_SECONDS)
            runs.append(self._work.transfer(name, arguments, share, message))
            if bad := self._bad_transfer(runs[-1]):
                return bad
        if self._has_changed(found, "after"):
            return TryAgain(*WRITTEN_MEANWHILE, delay_seconds=LOCKED_SECONDS)
        verification = self._verify(found) if self._work.mirror.verify else None
        if verification is not None and (bad := self._bad_verification(verification)):
            return bad
        return self._completed(found, runs, verification)

    # --- parts ------------------------------------------------------------------------------------------------------

    def _look(self, name: str) -> Survey:
        """Once in an attempt: what follows must be about the same files, also after a restart."""
        work = self._work
        made = self._context.once(name, lambda: survey(work.source, work.repository.engine_version).as_json())
        return Survey.from_json(dict(made))

    def _has_changed(self, found: Survey, name: str) -> bool:
        """True when the repository is not what it was when the sync began: what was copied may not fit together."""
        now = self._look(name)
        return (now.bytes, now.files, now.newest) != (found.bytes, found.files, found.newest)

    def _suspicious(self, found: Survey) -> Outcome | None:
        work = self._work
        suspicious = sanity.suspicions(
            found,
            engine_id=work.repository.engine_id,
            mirrored=work.mirror.mirrored,
            shrink_percent=work.mirror.shrink_threshold_percent,
        )
        if not suspicious:
            return None
        if self._override:
            self._context.log(*(f"Mirrored all the same, as asked for: {sentence}" for _, sentence in suspicious))
            return None
        reasons = [word for word, _ in suspicious]
        return Outcome(Status.FAILED, sanity.KEY, sanity.sentence_of(suspicious), result={"reasons": reasons})

    def _prepare(self, found: Survey) -> Outcome | None:
        """Make sure that the mirror's place holds this repository, or nothing; then put its name there first."""
        work = self._work
        told = work.ask(
            "identity", ("cat", "--count", IDENTITY_BYTES, place(work.mirror.path, self._layout.identity_file))
        )
        if not told.succeeded and told.trouble is not NOT_THERE:
            return told.bad_ending()
        text = told.result.stdout.read_text("utf-8", "replace")
        there = identity_of_config(text) if work.repository.engine_version == 1 else text.strip()
        if there and there == (found.identity or work.repository.engine_id):
            return None
        listed = work.ask("look", ("lsf", "--max-depth", "1", work.place))
        if not listed.succeeded and listed.result.exit.code != NOT_FOUND:
            return listed.bad_ending()
        names = set(listed.result.stdout.read_text("utf-8", "replace").splitlines())
        if there or not names <= {"config", "config/"}:  # a first sync that was cut off leaves a config without words
            return Outcome(Status.FAILED, *TAKEN, result={"destination": work.shown_place})
        return self._copy_settings("claim").bad_ending()

    def _transfers(self, found: Survey) -> list[tuple[str, tuple[str, ...], tuple[float, float], str]]:
        source, target = str(self._work.source), self._work.place
        newest = None if self._override else (self._work.mirror.mirrored or {}).get("newest")
        first = self._layout.first(newest, found.uncommitted)
        everything = self._layout.everything(found.uncommitted)
        transfers = [
            ("data", ("copy", source, target, *first), (5.0, 88.0), "Copying data."),
            (
                "names",
                ("sync", source, target, *everything, "--delete-after"),
                (88.0, 93.0),
                "Copying what refers to it.",
            ),
            ("settings", self._settings_arguments(), (93.0, 95.0), "Copying settings."),
        ]
        if newest is None:
            return transfers
        known = self._layout.known(newest, found.uncommitted)
        return [("known", ("copy", source, target, *known, "--immutable"), (0.0, 5.0), "Comparing data."), *transfers]

    def _settings_arguments(self) -> tuple[str, ...]:
        only = self._layout.only_settings()
        return ("copy", str(self._work.source), self._work.place, *only, "--ignore-times")

    def _copy_settings(self, name: str) -> Run:
        return self._work.transfer(name, self._settings_arguments(), (0.0, 0.0), "Preparing the place of the mirror.")

    def _bad_transfer(self, run: Run) -> Outcome | None:
        bad = run.bad_ending()
        if bad is not None and any(CHANGED_IN_PLACE in complaint for complaint in run.words.complaints):
            return Outcome(Status.FAILED, *CHANGED, result={**(bad.result or {}), "reasons": ["changed_in_place"]})
        return bad

    def _verify(self, found: Survey) -> Run:
        rules = self._layout.everything(found.uncommitted)
        arguments = ("check", str(self._work.source), self._work.place, *rules)
        return self._work.transfer("verify", arguments, (95.0, 99.0), "Comparing the mirror with the repository.")

    def _bad_verification(self, run: Run) -> Outcome | None:
        bad = run.bad_ending()
        if bad is None or bad.status is Status.CANCELLED or run.trouble not in (OTHER, NOT_THERE):
            return bad
        return Outcome(Status.FAILED, *UNEQUAL, result=bad.result)

    def _completed(self, found: Survey, runs: list[Run], verification: Run | None) -> Outcome:
        mirrored = {"bytes": found.bytes, "files": found.files, "newest": found.newest}
        result = {
            "destination": self._work.shown_place,
            "source_bytes": found.bytes,
            "source_files": found.files,
            "transferred_bytes": sum(run.words.progress.bytes for run in runs),
            "transferred_files": sum(run.words.progress.transfers for run in runs),
            "deleted_files": sum(run.words.progress.deletes for run in runs),
            "verified": verification is not None,
            "verified_hashes": verification is not None and verification.words.compared_hashes,
            "override_sanity": self._override,
        }
        record = partial(
            store.note_sync, mirror=self._work.mirror, mirrored=mirrored, verified=verification is not None
        )
        return Outcome(Status.COMPLETED, result=result, record=record)
