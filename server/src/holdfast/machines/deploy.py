"""Adds the service's key to machines, and replaces it with a new one."""

import shlex

from backup_engine.frozen import frozen
from holdfast.access import audit
from holdfast.access.caller import Caller
from holdfast.errors import Unprocessable
from holdfast.execution import ssh
from holdfast.execution.ssh import Answer, HostKey
from holdfast.machines import errors, store
from holdfast.machines.keys import keep_private
from holdfast.machines.models import SshConnection, SshKey
from holdfast.machines.ssh_links import Links
from holdfast.storage.session import Database

DONE = "holdfast-key-is-there"
FILE = """
umask 077
export LC_ALL=C
file="$HOME/.ssh/authorized_keys"
mkdir -p "$HOME/.ssh" && touch "$file" || exit 1
"""
ADD = """
key={key}
if ! grep -qxF -e "$key" "$file"; then
    if [ -s "$file" ] && [ -n "$(tail -c 1 "$file")" ]; then echo >>"$file" || exit 1; fi
    printf '%s\\n' "$key" >>"$file" || exit 1
fi
grep -qxF -e "$key" "$file" && echo {done}
"""
REMOVE = """
old={old}
new={new}
[ ! -L "$file" ] || file=$(readlink -f "$file") || exit 1
part=$file.holdfast
trap 'rm -f "$part"' EXIT
rm -f "$part" && cp -p "$file" "$part" || exit 1
grep -avxF -e "$old" "$file" >"$part"
[ "$(cat "$part")" = "$(grep -avxF -e "$old" "$file")" ] && grep -qxF -e "$new" "$part" || exit 1
mv -f "$part" "$file" && grep -qxF -e "$new" "$file" || exit 1
grep -qF -e {blob} "$file"
[ $? = 1 ] && echo {done}
"""
"""The file is replaced by a complete copy with the same mode and owner, so a full disk leaves it as it was. Lines that
are not valid UTF-8 must not make it a binary file, of which grep omits lines.
"""


@frozen
class Rotated:
    key: SshKey
    moved: list[SshConnection]
    failed: list[tuple[SshConnection, str]]


class KeyDeployment:
    def __init__(self, database: Database, links: Links) -> None:
        self._database = database
        self._links = links

    def deploy(self, caller: Caller, connection_id: int, password: str) -> SshConnection:
        """Log in once with the password and add the key. Raise Unprocessable. The password is not stored."""
        connection = self._pinned(connection_id)
        key = self._links.keys.newest()
        link = self._links.link_of(connection, key)
        askpass = self._links.keys.folder / "askpass"
        keep_private(askpass, ssh.ASKPASS, 0o700)
        _check(ssh.run_script_with_password(link, adding(key), password, askpass), by_password=True)
        return self._accepted(caller, connection, key, "ssh.key_deployed")

    def rotate(self, caller: Caller) -> Rotated:
        """Create a new key and add it to every machine that has the old one, which stays where that fails."""
        with self._database.writing() as session:
            new = self._links.keys.make(session)
            audit.record(session, actor=caller, action="ssh.key_rotated", object_type="ssh_key", object_id=new.id)
        moved, failed = [], []
        for connection in self._in_use():
            why = self._move(caller, connection, new)
            if why is None:
                moved.append(connection)
            else:
                failed.append((connection, why))
        with self._database.writing() as session:
            store.drop_unused_keys(session, new.id)
        return Rotated(new, moved, failed)

    def _in_use(self) -> list[SshConnection]:
        """The machines that accept one of the service's keys; the others get the new key when it is deployed there."""
        with self._database.reading() as session:
            return [connection for connection in store.every(session) if connection.key_id is not None]

    def _move(self, caller: Caller, connection: SshConnection, new: SshKey) -> str | None:
        """Replace the key on one machine. Return the reason for a failure, or None on success."""
        old = self._links.key_of(connection)
        if connection.host_key is None:
            return "ssh.no_host_key"
        added = ssh.run_script(self._links.link_of(connection, old), adding(new))
        if not _is_done(added):
            return added.failure or "ssh.deploy_failed"
        trial = self._links.link_of(connection, new, on_trial=True)
        tried = ssh.run_script(trial, replacing(old, new))
        if not _is_done(tried):
            return tried.failure or "ssh.deploy_failed"
        self._links.link_of(self._accepted(caller, connection, new, "ssh.key_moved"), new)
        trial.key_file.unlink(missing_ok=True)
        return None

    def _pinned(self, connection_id: int) -> SshConnection:
        connection = self._links.connection(connection_id)
        return connection if connection.host_key is not None else self._links.pin(connection)

    def _accepted(self, caller: Caller, connection: SshConnection, key: SshKey, action: str) -> SshConnection:
        with self._database.writing() as session:
            row = store.require(session, connection.id)
            row.key_id = key.id
            self._links.changed(session, connection.id)
            audit.note(session, caller, action, "ssh_connection", connection.id, {"name": connection.name})
            return row


def adding(key: SshKey) -> str:
    return FILE + ADD.format(key=_quoted(key), done=DONE)


def replacing(old: SshKey, new: SshKey) -> str:
    """The script that removes the old key, and succeeds only if it is gone and the new one is there."""
    blob = HostKey.of(old.public_key).blob
    return FILE + REMOVE.format(old=_quoted(old), new=_quoted(new), blob=shlex.quote(blob), done=DONE)


def _quoted(key: SshKey) -> str:
    return shlex.quote(key.public_key)


def _is_done(answer: Answer) -> bool:
    return answer.failure is None and DONE in answer.output


def _check(answer: Answer, *, by_password: bool) -> None:
    if answer.failure == ssh.KEY_REFUSED and by_password:
        raise errors.refused("ssh.password_refused")
    if answer.failure is not None:
        raise errors.refused(answer.failure)
    if DONE not in answer.output:
        raise Unprocessable(
            "ssh.deploy_failed",
            "The key could not be written there; add it to authorized_keys manually.",
            said=answer.errors.strip()[-300:],
        )
