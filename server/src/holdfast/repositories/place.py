"""The place of a new repository: checked, normalised, and with everything the engine needs to reach it."""

from backup_engine.frozen import frozen
from holdfast.errors import Unprocessable
from holdfast.repositories import ssh_address, store
from holdfast.repositories.location import SshMachines
from holdfast.repositories.schemas import NewRepository, RepositoryPlace
from holdfast.repositories.ssh_address import SshAccount, SshAddress


@frozen
class Place:
    path: str
    identity: str
    ssh_connection_id: int | None = None
    runs_on: int | None = None
    """The ssh machine on which the engine runs; None: this machine."""
    rclone_remote_id: int | None = None


def place_of(wanted: RepositoryPlace, machines: SshMachines) -> Place:
    """Return the place that a request describes. Raise Unprocessable if it is not valid."""
    if wanted.execution_target == "ssh" and wanted.repository_type != "rclone":
        return _on_machine(wanted, machines)
    if wanted.repository_type == "ssh" and wanted.execution_target == "local":
        return _by_ssh(wanted, machines)
    if wanted.repository_type not in _types_on_disk(wanted) or wanted.execution_target != "local":
        raise Unprocessable(
            "repository.unsupported_target",
            "This kind of location is not supported for repositories.",
        )
    if wanted.ssh_connection_id is not None:
        raise Unprocessable(
            "repository.not_by_ssh", "A local repository has no ssh connection; set repository_type to ssh."
        )
    path = absolute(wanted.path)
    return Place(path, store.identity_of(path))


def _types_on_disk(wanted: RepositoryPlace) -> tuple[str, ...]:
    """Return the types that are stored on a local disk: a mirrored cloud repository has its working copy here."""
    is_mirrored = isinstance(wanted, NewRepository) and wanted.mirror is not None
    return ("local", "rclone") if is_mirrored else ("local",)


def absolute(given: str) -> str:
    if not given.startswith("/"):
        raise Unprocessable("repository.path_not_absolute", "The path of a local repository must be absolute.")
    path = store.normal_path(given)
    if path == "/":
        raise Unprocessable("repository.path_not_absolute", "The root folder cannot be a repository.")
    return path


def _on_machine(wanted: RepositoryPlace, machines: SshMachines) -> Place:
    """Accept a path on the machine that runs the engine, or an address that the machine reaches by its own ssh."""
    if wanted.ssh_connection_id is None:
        raise Unprocessable(
            "repository.connection_missing", "Running the engine on an ssh machine requires ssh_connection_id."
        )
    account, connection = machines.account(wanted.ssh_connection_id), wanted.ssh_connection_id
    if wanted.repository_type == "ssh":
        address = ssh_address.require(wanted.path).text
        return Place(address, address, connection, connection)
    path = absolute(wanted.path)
    return Place(path, SshAddress(account, path).text, connection, connection)


def _by_ssh(wanted: RepositoryPlace, machines: SshMachines) -> Place:
    if wanted.path.startswith("/") and wanted.ssh_connection_id is not None:
        account = machines.account(wanted.ssh_connection_id)
        address = SshAddress(account, absolute(ssh_address.normal_path(wanted.path)))
        connection = wanted.ssh_connection_id
    else:
        address = ssh_address.require(wanted.path)
        connection = _connection(wanted.ssh_connection_id, address.account, machines)
        address = SshAddress(machines.account(connection), address.path)
    return Place(address.text, address.text, connection)


def _connection(given: int | None, account: SshAccount, machines: SshMachines) -> int:
    if given is not None:
        known = machines.account(given)
        if (account.host, account.port) != (known.host, known.port) or account.username not in (None, known.username):
            raise Unprocessable(
                "repository.other_account", "The account in the address differs from that of the ssh connection."
            )
        return given
    found = machines.connection_of(account)
    if found is None:
        raise Unprocessable(
            "repository.unknown_account", "No ssh connection to this account exists; add and test one first."
        )
    return found
