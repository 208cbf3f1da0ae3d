"""Requests and responses about restore grants."""

from typing import Literal

from pydantic import Field

from holdfast.access.roles import RepositoryRole
from holdfast.kit.fields import RowId, Timestamp
from holdfast.kit.schema import Closed, Schema
from holdfast.repositories.archived_paths import PathValue

MachineType = Literal["local", "ssh", "agent"]


class NewRestoreGrant(Closed):
    """Either `user_id` or `role`. `machine_id` is an ssh connection or an agent, and is left out for `local`."""

    user_id: RowId | None = None
    role: RepositoryRole | None = Field(None, description="All users with this role or a higher one.")
    machine_type: MachineType = Field(description="`local` is the service's own machine.")
    machine_id: RowId | None = None
    folder: PathValue = Field(description="Absolute path; the grant covers it and everything below it.")


class RestoreGrantAnswer(Schema):
    id: int
    user_id: int | None
    username: str | None
    role: RepositoryRole | None
    machine_type: MachineType
    machine_id: int | None
    machine_name: str | None
    folder: str
    folder_b64: str | None = Field(description="Exact path in base64, if it is not valid UTF-8.")
    created_by: str | None
    created_at: Timestamp


class RestoreGrants(Schema):
    grants: list[RestoreGrantAnswer]
