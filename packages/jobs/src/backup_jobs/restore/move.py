"""The second half of a restore: move files from the private folder into place and count them."""

from collections.abc import Mapping
from typing import Any

from backup_engine.extraction_check import SPECIAL
from backup_engine.frozen import frozen
from backup_jobs.host import Host
from backup_jobs.paths import shown
from backup_jobs.restore.layout import Placement
from backup_jobs.restore.private_tree import PrivateTree
from backup_jobs.restore.survey import MOST_SHOWN
from backup_jobs.restore.tree_mover import MoveResult
from backup_jobs.restore.verify import Plan, remove_rejected


@frozen
class Move:
    host: Host
    overwrite: str
    placement: Placement
    private: PrivateTree

    def run(self, plan: Plan) -> dict[str, Any]:
        """Move the files of the plan. Return the account from which the ending is built."""
        if plan.given_up:
            return self._account(plan, MoveResult(), "given_up", moved=(0, 0))
        if self.overwrite == "fail" and plan.conflict_count:
            return self._account(plan, MoveResult(), "conflicts", moved=(0, 0))
        with self.private.tree() as tree:
            remove_rejected(tree, plan)
        roots = self.placement.roots if self.placement.contents_only else ()
        placed = self.private.place(roots, self.overwrite, self.host.is_cancelled, plan.folders, self._report)
        if placed.cancelled:
            files, size = self.private.count()
            return self._account(plan, placed, "cancelled", moved=(plan.files - files, plan.size - size))
        left = (placed.skipped, placed.failed, placed.passed_over)
        files = plan.files - sum(tally.files for tally in left)
        size = plan.size - sum(tally.size for tally in left)
        return self._account(plan, placed, "done", moved=(files, size))

    def _report(self, moved: int) -> None:
        self.host.report(nfiles=moved, message="moving into place")

    def _account(self, plan: Plan, placed: MoveResult, how: str, *, moved: tuple[int, int]) -> dict[str, Any]:
        failed = [_item(path, reason) for path, reason, _ in plan.failed]
        failed += [_item(path, reason) for path, reason in placed.failed.named]
        left = placed.skipped.files + placed.failed.files + placed.passed_over.files
        result = {
            "files_restored": moved[0],
            "bytes_restored": moved[1],
            "files_skipped": placed.skipped.files,
            "bytes_skipped": placed.skipped.size,
            "files_failed": len(plan.failed) + plan.unnamed + placed.failed.files,
            "bytes_failed": sum(size for _, _, size in plan.failed) + placed.failed.size,
            "files_passed_over": placed.passed_over.files,
            "bytes_passed_over": placed.passed_over.size,
            "files_not_restored": plan.files - moved[0] - left,
            "special_files": len(plan.special) + plan.unnamed_special,
            "skipped": [_item(path, reason) for path, reason in placed.skipped.named],
            "failed": failed[:MOST_SHOWN],
            "passed_over": [_item(path, reason) for path, reason in placed.passed_over.named],
            "special": [_item(path, SPECIAL) for path in plan.special[:MOST_SHOWN]],
            "conflicts": [_item(path, reason) for path, reason in plan.conflicts] if how == "conflicts" else [],
            "conflict_count": plan.conflict_count if how == "conflicts" else 0,
        }
        attributes = [_item(path, reason) for path, reason in placed.attributes[:MOST_SHOWN]]
        return {"how": how, "size": plan.size, "result": result, "attributes": attributes}


def _item(path: bytes, reason: str) -> Mapping[str, str]:
    return {**shown(path), "reason": reason}
