"""The second half of a restore: from the private folder into place, and the account of it."""

import os
import stat
from collections.abc import Mapping
from typing import Any

from holdfast.operations.context import Context
from holdfast.restore import destination
from holdfast.restore.archived_paths import shown
from holdfast.restore.destination import PrivateFolder
from holdfast.restore.layout import Placement
from holdfast.restore.placing import Placed, Placing, below, count_files
from holdfast.restore.schemas import RestoreParams
from holdfast.restore.survey import MOST_SHOWN
from holdfast.restore.verify import SPECIAL, Plan, remove_unfit


class Move:
    def __init__(
        self,
        context: Context,
        params: RestoreParams,
        placement: Placement,
        path: bytes,
        private: PrivateFolder,
    ) -> None:
        self._context = context
        self._params = params
        self._placement = placement
        self._destination = path
        self._private = private

    def run(self, plan: Plan) -> dict[str, Any]:
        """Move what the plan names, and return the account: all that the operation's ending says comes from it."""
        if plan.given_up:
            return self._account(plan, Placed(), "given_up", moved=(0, 0))
        if self._params.overwrite == "fail" and plan.conflict_count:
            return self._account(plan, Placed(), "conflicts", moved=(0, 0))
        with self._private.tree() as tree, destination.opened(self._destination) as target:
            remove_unfit(tree, plan)
            placing = Placing(self._params.overwrite, plan.folders, self._context.is_cancelled, self._report)
            self._place(placing, tree, target)
            placed = placing.placed
            if placed.cancelled:
                files, size = count_files(tree)
                return self._account(plan, placed, "cancelled", moved=(plan.files - files, plan.size - size))
        files = plan.files - placed.skipped.files - placed.failed.files
        size = plan.size - placed.skipped.size - placed.failed.size
        return self._account(plan, placed, "done", moved=(files, size))

    def _place(self, placing: Placing, tree: int, target: int) -> None:
        if not (self._placement.contents_only and self._placement.roots):
            placing.contents(tree, target, b"")
            return
        for root in self._placement.roots:
            folder, _, name = root.rpartition(b"/")
            try:
                with below(tree, folder) as source:
                    mode = os.stat(name, dir_fd=source, follow_symlinks=False).st_mode
                    if not stat.S_ISDIR(mode):
                        placing.single(source, target, folder, name)
                        continue
                with below(tree, root) as source:
                    placing.contents(source, target, root)
            except FileNotFoundError:
                continue  # not extracted, or moved before the service was killed

    def _report(self, moved: int) -> None:
        self._context.report(nfiles=moved, message="moving into place")

    def _account(self, plan: Plan, placed: Placed, how: str, *, moved: tuple[int, int]) -> dict[str, Any]:
        failed = [_item(path, reason) for path, reason, _ in plan.failed]
        failed += [_item(path, reason) for path, reason in placed.failed.named]
        result = {
            "files_restored": moved[0],
            "bytes_restored": moved[1],
            "files_skipped": placed.skipped.files,
            "bytes_skipped": placed.skipped.size,
            "files_failed": len(plan.failed) + placed.failed.files,
            "bytes_failed": sum(size for _, _, size in plan.failed) + placed.failed.size,
            "files_not_restored": plan.files - moved[0] - placed.skipped.files - placed.failed.files,
            "special_files": len(plan.special),
            "skipped": [_item(path, reason) for path, reason in placed.skipped.named],
            "failed": failed[:MOST_SHOWN],
            "special": [_item(path, SPECIAL) for path in plan.special[:MOST_SHOWN]],
            "conflicts": [_item(path, reason) for path, reason in plan.conflicts] if how == "conflicts" else [],
            "conflict_count": plan.conflict_count if how == "conflicts" else 0,
        }
        attributes = [_item(path, reason) for path, reason in placed.attributes[:MOST_SHOWN]]
        return {"how": how, "size": plan.size, "result": result, "attributes": attributes}


def _item(path: bytes, reason: str) -> Mapping[str, str]:
    return {**shown(path), "reason": reason}
