"""Errors of restores."""

from holdfast.errors import Unprocessable


def bad_destination() -> Unprocessable:
    return Unprocessable("restore.bad_destination", "The destination must be an absolute path without '..'.")


def destination_forbidden() -> Unprocessable:
    return Unprocessable(
        "restore.destination_forbidden", "The destination is inside a repository or the service's own data."
    )


def unsupported_target() -> Unprocessable:
    sentence = "A restore to the service's own machine takes no destination_machine_id; omit it."
    return Unprocessable("restore.unsupported_target", sentence)


def machine_missing() -> Unprocessable:
    return Unprocessable(
        "restore.machine_missing", "A restore over ssh requires destination_machine_id, the ssh connection's id."
    )


def agent_missing() -> Unprocessable:
    return Unprocessable(
        "restore.agent_missing", "A restore to an agent requires destination_machine_id, the agent's id."
    )


def unknown_agent(agent_machine_id: int) -> Unprocessable:
    sentence = "Agent not found; enrol it first."
    return Unprocessable("restore.unknown_agent", sentence, destination_machine_id=agent_machine_id)


def unknown_machine(machine_id: int) -> Unprocessable:
    sentence = "SSH connection not found; add and test it first."
    return Unprocessable("restore.unknown_machine", sentence, destination_machine_id=machine_id)


def python_missing() -> Unprocessable:
    sentence = "A restore to an ssh machine needs Python 3.9 or newer there; install it."
    return Unprocessable("restore.python_missing", sentence)


def not_answered(reason: str) -> Unprocessable:
    return Unprocessable("restore.not_answered", f"The machine could not report what is at the destination: {reason}")
