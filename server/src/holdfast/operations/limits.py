"""Concurrency limits and the pause, stored so that every process applies the same ones."""

from typing import Annotated, Any

from pydantic import Field
from sqlalchemy import select
from sqlalchemy.orm import Session

from holdfast.kit.schema import Closed, Schema
from holdfast.operations.models import KernelSetting
from holdfast.storage.inserts import insert_or_replace

Limit = Annotated[int, Field(ge=1, le=64, strict=True)]

GROUP_FIELDS = {
    "backup": "max_running_backups",
    "restore": "max_running_restores",
    "maintenance": "max_running_maintenance",
    "index": "max_running_index",
    "script": "max_running_scripts",
}


class Limits(Schema):
    max_running_backups: Limit = 4
    max_running_restores: Limit = 4
    max_running_maintenance: Limit = 2
    max_running_index: Limit = 2
    max_running_scripts: Limit = 4
    max_running_total: Limit = 8

    def by_group(self) -> dict[str, int]:
        return {group: getattr(self, name) for group, name in GROUP_FIELDS.items()}


class LimitsChange(Closed):
    """Any of the limits; omitted ones stay unchanged."""

    max_running_backups: Limit | None = None
    max_running_restores: Limit | None = None
    max_running_maintenance: Limit | None = None
    max_running_index: Limit | None = None
    max_running_scripts: Limit | None = None
    max_running_total: Limit | None = None


def read(session: Session) -> tuple[Limits, bool]:
    """Return the limits in force, and whether follow-up and reconcile work is paused."""
    rows = session.execute(_SETTINGS).all()
    values: dict[str, Any] = {row.name: row.value for row in rows}
    return Limits(**values.get("limits", {})), bool(values.get("paused", False))


def change(session: Session, wanted: LimitsChange) -> Limits:
    present, _ = read(session)
    limits = present.model_copy(update=wanted.model_dump(exclude_none=True))
    put(session, "limits", limits.model_dump())
    return limits


def put(session: Session, name: str, value: Any) -> None:
    insert_or_replace(session, KernelSetting, {"name": name}, {"value": value})


def get(session: Session, name: str) -> Any | None:
    return session.scalar(select(KernelSetting.value).where(KernelSetting.name == name))


_SETTINGS = select(KernelSetting.name, KernelSetting.value).where(KernelSetting.name.in_(("limits", "paused")))
