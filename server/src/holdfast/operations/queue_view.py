"""The queue as clients see it."""

from collections import Counter
from collections.abc import Sequence
from itertools import groupby

from sqlalchemy.orm import Session

from holdfast.access import rights
from holdfast.access.caller import Caller
from holdfast.access.roles import Role
from holdfast.operations import limits as kernel_limits
from holdfast.operations import pages, runners
from holdfast.operations.limits import GROUP_FIELDS
from holdfast.operations.models import Operation
from holdfast.operations.present import Presenter
from holdfast.operations.queue import lane_of
from holdfast.operations.schemas import LaneOperation, LaneQueue, LimitsInForce, OperationItem, Queue, RunnerItem
from holdfast.operations.status import LockMode, Status


def read_queue(session: Session, caller: Caller, presenter: Presenter) -> Queue:
    visible = rights.visible_repositories(session, caller)
    active = pages.active(session, visible, of_repositories_only=caller.role is not Role.ADMIN)
    limits, paused = kernel_limits.read(session)
    items = {item.id: item for item in presenter.items(session, active)}
    return Queue(
        repositories=_lanes(active, items),
        limits=LimitsInForce(**limits.model_dump(), running=_running(session)),
        paused=paused,
        runners=_runners(session) if caller.role is Role.ADMIN else [],
    )


def _lanes(active: Sequence[Operation], items: dict[int, OperationItem]) -> list[LaneQueue]:
    ordered = sorted(active, key=lambda operation: operation.repository_id or 0)
    lanes = []
    for repository_id, group in groupby(ordered, key=lambda operation: operation.repository_id):
        operations = list(group)
        holders = [operation for operation in operations if _holds_lane(operation)]
        holders.sort(key=lambda operation: (operation.lock_mode != LockMode.EXCLUSIVE, operation.id))
        shown = [_holder(holder) for holder in holders]
        lanes.append(
            LaneQueue(
                repository_id=repository_id,
                repository_name=operations[0].repository_name,
                lane_busy=bool(holders),
                lane_holder=shown[0] if shown else None,
                lane_holders=shown,
                operations=[items[operation.id] for operation in operations],
            )
        )
    return lanes


def _holds_lane(operation: Operation) -> bool:
    """Whether this operation holds its repository's lane. A script run by an agent is in a lane of its machine."""
    lane = lane_of(operation.repository_id) if operation.repository_id is not None else operation.lock_key
    return operation.status == Status.RUNNING and operation.lock_key is not None and operation.lock_key == lane


def _holder(operation: Operation) -> LaneOperation:
    return LaneOperation.from_row(operation)


def _running(session: Session) -> dict[str, int]:
    groups = Counter(runners.running_groups(session))
    return {**{GROUP_FIELDS[group]: groups[group] for group in GROUP_FIELDS}, "max_running_total": groups.total()}


def _runners(session: Session) -> list[RunnerItem]:
    busy = runners.running_by_runner(session)
    return [
        RunnerItem(id=row.id, host=row.host, heartbeat_at=row.heartbeat_at, running=busy.get(row.id, 0))
        for row in runners.known(session)
        if row.role != "api"
    ]
