"""Folders of machines as clients see them."""

from typing import Annotated, Literal

from pydantic import Field

from holdfast.kit.fields import PlainText, RowId
from holdfast.kit.schema import Closed, Schema

FolderPath = Annotated[str, PlainText(1, 4096)]
ExactFolderPath = Annotated[str, PlainText(1, 8192)]


Target = Annotated[
    Literal["local", "ssh", "agent"],
    Field(description="The service's own machine, an ssh machine, or the machine of an agent."),
]
MachineId = Annotated[
    RowId | None, Field(description="With `ssh`: the ssh connection. With `agent`: the agent's `id`.")
]


class FolderRequest(Closed):
    target: Target = "local"
    machine_id: MachineId = None
    path: FolderPath | None = Field(None, description="Absolute path of the folder. Without a path: `/`.")
    path_b64: ExactFolderPath | None = Field(
        None, description="The same in base64, for names that are not valid UTF-8."
    )
    folders_only: bool = Field(False, description="Leave out everything but folders, and links to folders.")
    limit: int = Field(200, ge=1, le=1000)
    cursor: Annotated[str, PlainText(1, 2000)] | None = None


class FolderEntry(Schema):
    name: str
    path: str
    path_b64: str | None = Field(description="Bytes of the path in base64, where they are not valid UTF-8.")
    type: str = Field(description="As `ls -l` shows it: `-`, `d`, `l`, …; `?` where unknown.")
    is_folder: bool = Field(description="A folder, or a link that leads to one.")
    size: int | None = Field(description="Of files.")
    readable: bool = Field(description="Whether the account that backups run under may read it.")
    mount: bool = Field(description="Whether another file system is mounted here.")


class Folder(Schema):
    path: str = Field(description="Without links.")
    path_b64: str | None
    entries: list[FolderEntry] = Field(description="In the order of the bytes of their names.")
    next_cursor: str | None
    truncated: bool = Field(description="The folder has more than 50,000 names; some are missing.")


class EstimateRequest(Closed):
    target: Target = "local"
    machine_id: MachineId = None
    paths: Annotated[list[FolderPath], Field(min_length=1, max_length=100)] = Field(
        description="Absolute paths of files and folders, such as the sources of a backup."
    )


class Estimate(Schema):
    """What a backup of the paths would read, before its exclusions: each file once, links are not followed."""

    files: int = Field(description="Names that are not folders.")
    folders: int
    bytes: int
    unreadable: int = Field(description="Folders that could not be read.")
    complete: bool = Field(description="False if not everything was counted within 15 seconds: then it is more.")


class ProbedPlace(Closed):
    """A place that may hold a repository, or get one."""

    path: FolderPath = Field(description="Absolute path on the machine.")
    execution_target: Target = "local"
    ssh_connection_id: RowId | None = Field(None, description="With `ssh`: the machine.")
    agent_machine_id: RowId | None = Field(None, description="With `agent`: the agent's `id`.")


class ProbedRepository(Schema):
    engine_version: int = Field(description="1 or 2.")
    engine_id: str | None
    encryption: str | None = Field(description="`repokey` where the files show it; null where only the engine knows.")
    repository_id: int | None = Field(description="Of the repository that is registered with this id of the engine.")


class ProbeAnswer(Schema):
    path: str
    exists: bool
    is_folder: bool
    empty: bool | None = Field(description="Null where the folder cannot be read.")
    readable: bool
    writable: bool = Field(description="For a path that does not exist: whether it can be created.")
    free_bytes: int
    total_bytes: int
    repository: ProbedRepository | None = Field(description="The repository that is there.")
