"""All database statements for wipe previews."""

from sqlalchemy.orm import Session

from holdfast.errors import NotFound
from holdfast.maintenance.wipe.models import PREVIEW_BASE, WipePreview
from holdfast.storage.rows import change_rows


def is_preview(job_id: int) -> bool:
    return PREVIEW_BASE < job_id < 2 * PREVIEW_BASE


def get(session: Session, public_id: int) -> WipePreview | None:
    return session.get(WipePreview, public_id - PREVIEW_BASE) if is_preview(public_id) else None


def of_repository(session: Session, repository_id: int, public_id: int) -> WipePreview:
    """The preview, if it belongs to this repository. Raise NotFound."""
    preview = get(session, public_id)
    if preview is None or preview.repository_id != repository_id:
        raise NotFound("wipe.preview_not_found", "Preview not found for this repository.", preview_id=public_id)
    return preview


def leave_previewed(session: Session, preview: WipePreview, status: str, operation_id: int | None = None) -> bool:
    """Mark an unused preview as started or cancelled. Return False if it already was."""
    changed = change_rows(
        session,
        WipePreview,
        WipePreview.id == preview.id,
        WipePreview.status == "previewed",
        status=status,
        operation_id=operation_id,
    )
    return bool(changed)
