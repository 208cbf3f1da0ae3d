"""Request and response schemas for folders of machines."""

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
    RowId | None, Field(description="For `ssh`: id of the ssh connection. For `agent`: the agent's `id`.")
]


class FolderRequest(Closed):
    target: Target = "local"
    machine_id: MachineId = None
    path: FolderPath | None = Field(None, description="Absolute path of the folder (default: `/`).")
    path_b64: ExactFolderPath | None = Field(
        None, description="The same path in base64, for names that are not valid UTF-8."
    )
    folders_only: bool = Field(False, description="Return only folders and links to folders.")
    limit: int = Field(200, ge=1, le=1000)
    cursor: Annotated[str, PlainText(1, 2000)] | None = None


class FolderEntry(Schema):
    name: str
    path: str
    path_b64: str | None = Field(description="The path in base64, if it is not valid UTF-8.")
    type: str = Field(description="As shown by `ls -l`: `-`, `d`, `l`, …; `?` if unknown.")
    is_folder: bool = Field(description="A folder, or a link to one.")
    size: int | None = Field(description="Of files.")
    readable: bool = Field(description="Whether the account that runs backups can read it.")
    mount: bool = Field(description="Whether another file system is mounted here.")


class Folder(Schema):
    path: str = Field(description="Without links.")
    path_b64: str | None
    entries: list[FolderEntry] = Field(description="Sorted by name, in byte order.")
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

    files: int = Field(description="Number of entries that are not folders.")
    folders: int
    bytes: int
    unreadable: int = Field(description="Folders that could not be read.")
    complete: bool = Field(
        description="False if not everything was counted within 15 seconds; the actual numbers are higher."
    )


class ProbedPlace(Closed):
    """A path where a repository exists or could be created."""

    path: FolderPath = Field(description="Absolute path on the machine.")
    execution_target: Target = "local"
    ssh_connection_id: RowId | None = Field(None, description="For `ssh`: id of the ssh connection.")
    agent_machine_id: RowId | None = Field(None, description="For `agent`: the agent's `id`.")


class ProbedRepository(Schema):
    engine_version: int = Field(description="1 or 2.")
    engine_id: str | None
    encryption: str | None = Field(description="`repokey` if the files show it; null if only the engine can tell.")
    repository_id: int | None = Field(description="The registered repository with this engine id.")


class ProbeAnswer(Schema):
    path: str
    exists: bool
    is_folder: bool
    empty: bool | None = Field(description="Null if the folder cannot be read.")
    readable: bool
    writable: bool = Field(description="If the path does not exist, whether it can be created.")
    free_bytes: int
    total_bytes: int
    repository: ProbedRepository | None = Field(description="The repository at this path.")
