"""The keys of keyfile repositories: encrypted in the store, and written to where the local engine looks for them.

The engine writes a key into its own folder, and finds it there by the id in the first line. If the key is missing, the
process that opens the repository writes it from the store. If both exist, the engine's copy counts, because its
passphrase may have been changed.
"""

import os
import re
from pathlib import Path

from sqlalchemy import select

from holdfast.access.vault import Vault
from holdfast.repositories.models import Repository
from holdfast.storage.session import Database

FIRST_LINE = re.compile(r"BORG_KEY ([0-9a-f]{64})\s*")
LARGEST = 1 << 20


def key_context(repository_uuid: str) -> str:
    return f"repository:{repository_uuid}:keyfile"


class KeyFiles:
    def __init__(self, folder: Path, vault: Vault) -> None:
        self._folder = folder
        self._vault = vault

    def put(self, repository_uuid: str, content: str) -> Path:
        """Write a key for the local engine. The repository's passphrase protects the key itself."""
        self._folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        file = self._folder / f"holdfast-{repository_uuid}"
        part = self._folder / f".{file.name}.{os.getpid()}"
        with os.fdopen(os.open(part, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w") as stream:
            stream.write(content if content.endswith("\n") else content + "\n")
        part.replace(file)
        return file

    def put_given(self, database: Database, repository_uuid: str, content: str) -> Path | None:
        """Like `put`, for a key provided with an import.

        Return None if the key names a managed repository that already has one here: the engine could then find either
        of them, and the store would keep the wrong one.
        """
        found = FIRST_LINE.match(content)
        with database.reading() as session:
            taken = select(Repository.id).where(Repository.engine_id == (found and found[1]))
            is_taken = found is not None and session.scalars(taken).first() is not None
        return None if found and is_taken and self._find(found[1]) else self.put(repository_uuid, content)

    def sealed(self, repository_uuid: str, engine_id: str | None) -> str | None:
        """Return the local engine's key for a repository, encrypted for the store; None if it has none."""
        content = self._find(engine_id)
        return self._vault.encrypt(content, key_context(repository_uuid)) if content is not None else None

    def renewed(self, repository_uuid: str, engine_id: str | None, known: str | None) -> str | None:
        """Like `sealed`, but return None if the store already has this key."""
        content = self._find(engine_id)
        if content is None:
            return None
        context = key_context(repository_uuid)
        if known is not None and self._vault.decrypt(known, context).rstrip() == content.rstrip():
            return None
        return self._vault.encrypt(content, context)

    def materialise(self, repository_uuid: str, engine_id: str | None, sealed: str | None) -> None:
        """Give the local engine a key from the store, unless it has one."""
        if sealed is None or self._find(engine_id) is not None:
            return
        self.put(repository_uuid, self._vault.decrypt(sealed, key_context(repository_uuid)))

    def _find(self, engine_id: str | None) -> str | None:
        for file in sorted(self._folder.iterdir()) if self._folder.is_dir() else ():
            content = _read(file)
            found = FIRST_LINE.match(content or "")
            if content is not None and found is not None and found[1] == engine_id:
                return content
        return None


def _read(file: Path) -> str | None:
    try:
        if file.name.startswith(".") or file.stat().st_size > LARGEST:
            return None
        return file.read_text()
    except (OSError, ValueError):
        return None


def keep_known_keys(database: Database, key_files: KeyFiles) -> None:
    """Store keys that the local engine has and the store lacks: keys of repositories made by an older version, and keys
    that a user has changed with the engine itself (`borg key change-passphrase`).
    """
    here = select(Repository).where(Repository.has_keyfile, Repository.execution_target == "local")
    with database.reading() as session:
        found = [
            (
                repository.id,
                repository.keyfile,
                key_files.renewed(repository.uuid, repository.engine_id, repository.keyfile),
            )
            for repository in session.scalars(here)
        ]
    for repository_id, known, renewed in found:
        if renewed is not None:
            with database.writing() as session:
                repository = session.get(Repository, repository_id)
                if repository is not None and repository.keyfile == known:
                    repository.keyfile = renewed
