"""Errors of requests about ssh machines."""

from typing import Any

from holdfast.errors import Conflict, NotFound, Unprocessable
from holdfast.execution import ssh


def unknown(connection_id: int) -> NotFound:
    return NotFound("ssh.not_found", "There is no such ssh connection.", ssh_connection_id=connection_id)


def name_taken() -> Conflict:
    return Conflict("ssh.name_taken", "An ssh connection has this name already.")


def account_taken(connection_id: int) -> Conflict:
    sentence = "There is an ssh connection to this account already; use that one."
    return Conflict("ssh.account_taken", sentence, ssh_connection_id=connection_id)


def in_use(repository_ids: list[int]) -> Conflict:
    sentence = "Repositories use this connection; forget them first."
    return Conflict("ssh.in_use", sentence, repository_ids=repository_ids)


def refused(key: str, **params: Any) -> Unprocessable:
    return Unprocessable(key, ssh.SENTENCES[key], **params)


def no_host_key() -> Unprocessable:
    return Unprocessable("ssh.no_host_key", "The host shows no key that can be pinned; look at the log of its sshd.")


def other_fingerprint(shown: str) -> Conflict:
    sentence = "The host shows another key than the one you accept; compare the fingerprints again."
    return Conflict("ssh.other_fingerprint", sentence, fingerprint=shown)


def not_deployed(words: str) -> Unprocessable:
    sentence = "The key could not be written there; add it to authorized_keys by hand."
    return Unprocessable("ssh.deploy_failed", sentence, said=words)
