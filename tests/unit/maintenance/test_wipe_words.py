"""A wipe's status and phase, derived from its operation, and the fingerprint of the archives it removes."""

from typing import Any

import pytest

from holdfast.maintenance.wipe.models import PREVIEW_BASE, WipePreview
from holdfast.maintenance.wipe.present import phase_of, status_of
from holdfast.maintenance.wipe.preview import fingerprint
from holdfast.maintenance.wipe.store import is_preview
from holdfast.operations.models import Operation


def operation(status: str, result: dict[str, Any] | None = None, progress: dict[str, Any] | None = None) -> Operation:
    return Operation(status=status, result=result, progress=progress)


@pytest.mark.parametrize(
    ("made", "status", "phase"),
    [
        (operation("pending"), "pending", "queued"),
        (operation("pending", {"phase": "delete_failed_partial"}), "pending", "queued"),
        (operation("running"), "running", "delete"),
        (operation("running", progress={"phase": "compact"}), "running", "compact"),
        (operation("completed", {"phase": "completed"}), "completed", "completed"),
        (operation("completed", {"phase": "compact_skipped"}), "completed", "compact_skipped"),
        (
            operation("completed_with_warnings", {"phase": "compact_failed"}),
            "completed_compaction_failed",
            "compact_failed",
        ),
        (operation("failed", {"phase": "delete_failed"}), "failed", "delete_failed"),
        (operation("failed", {"phase": "delete_failed_partial"}), "failed_partial", "delete_failed_partial"),
        (operation("failed"), "failed", "error"),
        (operation("failed", {"phase": "error"}), "failed", "error"),
        (operation("cancelled"), "cancelled", "cancelled"),
        (operation("cancelled", {"phase": "delete_failed_partial"}), "cancelled", "cancelled"),
    ],
)
def test_a_wipes_status_and_phase_are_derived_from_its_operation(made: Operation, status: str, phase: str) -> None:
    assert (status_of(made), phase_of(made)) == (status, phase)


def test_a_fingerprint_depends_on_the_archives_and_not_on_their_order() -> None:
    one, two = {"id": "a" * 64, "name": "x"}, {"id": "b" * 64, "name": "y"}

    assert fingerprint([one, two]) == fingerprint([two, {**one, "name": "renamed"}])
    assert len({fingerprint(archives) for archives in ([], [one], [two], [one, two])}) == 4
    assert fingerprint([one]).startswith("sha256:")


def test_ids_of_previews_and_operations_never_overlap() -> None:
    assert WipePreview(id=1).public_id == 1_000_000_001
    assert not is_preview(PREVIEW_BASE)
    assert is_preview(PREVIEW_BASE + 1)
    assert not is_preview(1)
