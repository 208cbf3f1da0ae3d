"""The operation kind `sync`: make the mirror equal to the repository.

Immutable files are copied first, then the files that refer to them, and only then is anything deleted. So the mirror
can be opened at any time, in its state before or after the sync. A repository that does not look intact is not
mirrored.
"""

import secrets
from functools import partial
from pathlib import Path
from typing import Any

from backup_engine.causes import REPLACED, SENTENCES
from backup_engine.rclone import NOT_THERE, OTHER
from holdfast.mirror import engine2_files, sanity, store
from holdfast.mirror.kind import mirror_kind
from holdfast.mirror.mirror_work import MirrorWork, Run
from holdfast.mirror.rclone import NOT_FOUND, place
from holdfast.mirror.remotes import Remotes
from holdfast.mirror.schemas import SyncParams
from holdfast.mirror.source import Survey, identity_of_config, survey
from holdfast.operations.context import Context
from holdfast.operations.kinds import Kind
from holdfast.operations.locks import Access
from holdfast.operations.outcome import Outcome, TryAgain
from holdfast.operations.status import Status

IDENTITY_BYTES = "65536"
TURN_SECONDS = 0.5
LOCKED_SECONDS = 5.0
DELETING = ("names", "leftovers")
"""Steps that delete files no longer in the repository; the first one also copies the files that refer to the data."""
MARK = Path(__file__).parent / "marks" / Path(engine2_files.MARK).name
"""The engine's mark as a file to copy."""
CHANGED_IN_PLACE = "immutable file modified"
TAKEN = (
    "mirror.destination_taken",
    "Something else is stored at the mirror's location, and a sync would delete it; choose another path, or empty it.",
)
CHANGED = (
    sanity.KEY,
    f"Files that never change differ from their mirrored copies. {sanity.OVERRIDE}",
)
UNEQUAL = (
    "mirror.verification_failed",
    "After the sync, the mirror does not match the repository; check the repository, then sync again.",
)
WRITTEN_MEANWHILE = (
    "mirror.source_changed",
    "The repository changed during the sync: another program is writing to it, or its disk is gone.",
)


def kind(remotes: Remotes, install_id: str) -> Kind:
    return mirror_kind(
        name=store.SYNC,
        activity_word="rclone_sync",
        access=Access.READ_FILES,
        params=SyncParams,
        run=lambda context: run(remotes, install_id, context),
        shows=("destination", "transferred_bytes", "verified", "verified_by", "problems", "reasons"),
    )


def run(remotes: Remotes, install_id: str, context: Context) -> Outcome | TryAgain:
    """Run a sync. Syncs of one repository run one at a time although they share the lane: they write to one place."""
    repository_id, own = context.operation.repository_id or 0, context.operation.id
    while True:
        with context.database.writing() as session:
            if store.take_turn(session, repository_id, own):
                break
        context.pause(TURN_SECONDS)
    return _Sync(remotes, install_id, context).run()


Transfer = tuple[str, tuple[str, ...], tuple[float, float], str]
"""A step's name, rclone's arguments, its share of the whole in percent, and the message shown meanwhile."""


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
        known = self._work.repository.engine_id
        if found.identity and known and found.identity != known:
            return Outcome(Status.FAILED, REPLACED, SENTENCES[REPLACED])
        if bad := self._suspicious(found) or self._prepare(found) or self._examine():
            return bad
        runs: list[Run] = []
        for name, arguments, share, message in self._transfers(found):
            if name in DELETING and self._has_changed(
                found, f"before-{name}"
            ):  # a disk that has since disappeared looks empty
                return TryAgain(*WRITTEN_MEANWHILE, delay_seconds=LOCKED_SECONDS)
            runs.append(self._work.transfer(name, arguments, share, message))
            if bad := self._bad_transfer(runs[-1]):
                return bad
        if self._has_changed(found, "after"):
            return TryAgain(*WRITTEN_MEANWHILE, delay_seconds=LOCKED_SECONDS)
        verification = self._verify(found) if self._work.mirror.verify else None
        if verification is not None and (bad := self._bad_verification(verification)):
            return bad
        verified_by = self._verified_by(verification)
        if verified_by == "sample" and (bad := self._bad_verification(self._verify_sample(found))):
            return bad
        return self._completed(found, runs, verified_by)

    # --- parts ------------------------------------------------------------------------------------------------------

    def _look(self, name: str) -> Survey:
        """Survey the repository once per attempt: the following steps must use the same files, even after a restart."""
        work = self._work
        made = self._context.once(name, lambda: survey(work.source, work.repository.engine_version).as_json())
        return Survey.from_json(dict(made))

    def _has_changed(self, found: Survey, name: str) -> bool:
        """Whether the repository has changed since the sync began, so that the copied files may not fit together."""
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
        return self._judged(suspicious)

    def _judged(self, suspicious: list[tuple[str, str]]) -> Outcome | None:
        if not suspicious:
            return None
        if self._override:
            self._context.log(*(f"Mirrored anyway, as requested: {sentence}" for _, sentence in suspicious))
            return None
        reasons = [word for word, _ in suspicious]
        return Outcome(Status.FAILED, sanity.KEY, sanity.sentence_of(suspicious), result={"reasons": reasons})

    def _prepare(self, found: Survey) -> Outcome | None:
        """Make sure that the mirror's place contains this repository or nothing, then write its config there first."""
        work = self._work
        answer = work.ask(
            "identity", ("cat", "--count", IDENTITY_BYTES, place(work.mirror.path, self._layout.identity_file))
        )
        if not answer.succeeded and answer.trouble is not NOT_THERE:
            return answer.bad_ending()
        text = answer.result.stdout.read_text("utf-8", "replace")
        there = identity_of_config(text) if work.repository.engine_version == 1 else text.strip()
        if there and there == (found.identity or work.repository.engine_id):
            return None
        listed = work.ask("look", ("lsf", "--max-depth", "1", work.place))
        if not listed.succeeded and listed.result.exit.code != NOT_FOUND:
            return listed.bad_ending()
        names = set(listed.result.stdout.read_text("utf-8", "replace").splitlines())
        if there or not names <= {"config", "config/"}:  # an interrupted first sync leaves an empty config
            return Outcome(Status.FAILED, *TAKEN, result={"destination": work.shown_place})
        return self._copy_settings("claim").bad_ending()

    def _examine(self) -> Outcome | None:
        """For engine 2, prove that the files to copy are intact before the mirror is changed."""
        work = self._work
        if not self._layout.named_by_content:
            return None
        rules = [
            word
            for pattern in ("packs/**", "index/**", "keys/**", engine2_files.MARK)
            for word in ("--include", f"/{pattern}")
        ]
        listed = work.ask(
            "list", ("lsf", "-R", "--files-only", "--format", "sp", "--separator", ":", *rules, work.place)
        )
        if not listed.succeeded:
            return listed.bad_ending()
        there = engine2_files.listing_of(listed.result.stdout.read_text("utf-8", "replace").splitlines())
        return self._judged(sanity.of_contents(self._context.once("contents", lambda: self._compared(there))))

    def _compared(self, there: engine2_files.Listing) -> dict[str, Any]:
        found = engine2_files.compared(engine2_files.listing_here(self._work.source), there)
        total, done = sum(found.lacking.values()), 0

        def look_up(size: int) -> None:
            nonlocal done
            done += size
            self._context.pause(0)
            self._context.report(progress_percent=0.0, current=done, total=total, message="Reading the files to copy.")

        damaged = engine2_files.damaged(self._work.source, found.lacking, look_up)
        return {"is_equal": found.is_equal, "damaged": damaged, "lost": list(found.lost)}

    def _transfers(self, found: Survey) -> list[Transfer]:
        if self._layout.named_by_content:
            return self._transfers_by_content(found)
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
                "Copying the files that refer to it.",
            ),
            ("settings", self._settings_arguments(), (93.0, 95.0), "Copying settings."),
        ]
        if newest is None:
            return transfers
        known = self._layout.known(newest, found.uncommitted)
        return [("known", ("copy", source, target, *known, "--immutable"), (0.0, 5.0), "Comparing data."), *transfers]

    def _transfers_by_content(self, found: Survey) -> list[Transfer]:
        """Transfers for engine 2. The index is marked unusable from its first new part to the last old pack."""
        source, target = str(self._work.source), self._work.place
        mark = place(self._work.mirror.path, engine2_files.MARK)
        is_equal = (self._context.kept("contents") or {}).get("is_equal")
        marking = [("mark", ("copyto", str(MARK), mark), (85.0, 86.0), "Marking the mirror's index.")]
        unmarking = [("unmark", ("deletefile", mark), (95.0, 95.0), "Removing the mark.")]
        names = ("sync", source, target, *self._layout.only_names(), "--size-only", "--delete-after")
        leftovers = ("sync", source, target, *self._layout.only_data(), "--size-only", "--delete-after")
        return [
            ("data", ("copy", source, target, *self._layout.only_data(), "--size-only"), (0.0, 85.0), "Copying data."),
            *(marking if found.is_marked or not is_equal else []),
            ("names", names, (86.0, 91.0), "Copying the files that refer to it."),
            ("leftovers", leftovers, (91.0, 93.0), "Deleting files no longer in the repository."),
            ("settings", self._settings_arguments(), (93.0, 95.0), "Copying settings."),
            *([] if found.is_marked or is_equal else unmarking),
        ]

    def _settings_arguments(self) -> tuple[str, ...]:
        only = self._layout.only_settings()
        return ("copy", str(self._work.source), self._work.place, *only, "--ignore-times")

    def _copy_settings(self, name: str) -> Run:
        return self._work.transfer(name, self._settings_arguments(), (0.0, 0.0), "Preparing the place of the mirror.")

    def _bad_transfer(self, run: Run) -> Outcome | None:
        bad = run.bad_ending()
        if bad is not None and any(CHANGED_IN_PLACE in complaint for complaint in run.log.complaints):
            return Outcome(Status.FAILED, *CHANGED, result={**(bad.result or {}), "reasons": ["changed_in_place"]})
        return bad

    def _verify(self, found: Survey) -> Run:
        rules = self._layout.everything(found.uncommitted)
        arguments = ("check", str(self._work.source), self._work.place, *rules)
        return self._work.transfer("verify", arguments, (95.0, 99.0), "Comparing the mirror with the repository.")

    def _verified_by(self, verification: Run | None) -> str | None:
        """How the mirror was compared with the repository: only by size if the remote has no hashes."""
        if verification is None:
            return None
        if verification.log.compared_hashes:
            return "hashes"
        return "sample" if self._work.mirror.verify_sample else "sizes"

    def _verify_sample(self, found: Survey) -> Run:
        """Read some files back and compare their content; a resumed attempt chooses the same files."""
        files = self._context.once("sample", lambda: {"files": self._sample(found)})["files"]
        chosen = [word for name in files for word in ("--filter", f"+ /{name}")]
        arguments = ("check", "--download", str(self._work.source), self._work.place, *chosen, "--filter", "- *")
        return self._work.transfer("sample", arguments, (99.0, 99.5), "Reading a sample of the mirror back.")

    def _sample(self, found: Survey) -> list[str]:
        source = self._work.source
        folders = [source / pattern.strip("/").partition("/")[0] for pattern in self._layout.data]
        every = sorted(
            name
            for folder in folders
            for file in folder.rglob("*")
            if file.is_file() and (name := str(file.relative_to(source))) not in found.uncommitted
        )
        return secrets.SystemRandom().sample(every, min(len(every), self._work.mirror.verify_sample))

    def _bad_verification(self, run: Run) -> Outcome | None:
        bad = run.bad_ending()
        if bad is None or bad.status is Status.CANCELLED or run.trouble not in (OTHER, NOT_THERE):
            return bad
        return Outcome(Status.FAILED, *UNEQUAL, result=bad.result)

    def _completed(self, found: Survey, runs: list[Run], verified_by: str | None) -> Outcome:
        mirrored = {"bytes": found.bytes, "files": found.files, "newest": found.newest}
        result = {
            "destination": self._work.shown_place,
            "source_bytes": found.bytes,
            "source_files": found.files,
            "transferred_bytes": sum(run.log.progress.bytes for run in runs),
            "transferred_files": sum(run.log.progress.transfers for run in runs),
            "deleted_files": sum(run.log.progress.deletes for run in runs),
            "verified": verified_by is not None,
            "verified_hashes": verified_by == "hashes",
            "verified_by": verified_by,
            "override_sanity": self._override,
        }
        if verified_by == "sizes":
            self._context.log(
                "The remote has no hashes: sizes were compared, not content. `verify_sample` compares content."
            )
        record = partial(store.note_sync, mirror=self._work.mirror, mirrored=mirrored, verified_by=verified_by)
        return Outcome(Status.COMPLETED, result=result, record=record)
