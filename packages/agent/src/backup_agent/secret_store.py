"""Secrets that stay on this machine: passphrases of repositories with `passphrase_location: agent`."""

import re
from pathlib import Path

from backup_agent import private_files, sealing
from backup_agent.places import Places
from backup_agent.problems import Problem

NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._:/@-]{0,199}")


class SecretStore:
    def __init__(self, places: Places) -> None:
        self._file: Path = places.secrets_file
        self._key_file: Path = places.key_file

    def names(self) -> list[str]:
        return sorted(self._read())

    def get(self, name: str) -> str | None:
        sealed = self._read().get(name)
        return None if sealed is None else sealing.unseal(sealing.key_of(self._key_file), sealed, _purpose(name))

    def set(self, name: str, value: str) -> None:
        """Store a secret. Raise Problem if its name or value is invalid."""
        if not NAME.fullmatch(name):
            raise Problem(f"{name!r} cannot be the name of a secret: letters, digits and . _ : / @ - are allowed.")
        if not value or "\0" in value:
            raise Problem("A secret must not be empty or contain a NUL character.")
        kept = self._read()
        kept[name] = sealing.seal(sealing.key_of(self._key_file), value, _purpose(name))
        self._write(kept)

    def remove(self, name: str) -> bool:
        """Remove a secret. Return False if there is none of this name."""
        kept = self._read()
        if kept.pop(name, None) is None:
            return False
        self._write(kept)
        return True

    def _read(self) -> dict[str, str]:
        if not self._file.exists():
            return {}
        kept = private_files.read_json(self._file)
        if not isinstance(kept, dict):
            raise Problem(f"{self._file} is damaged; move it away and set the secrets again.")
        return kept

    def _write(self, kept: dict[str, str]) -> None:
        private_files.make_folder(self._file.parent)
        private_files.write_json(self._file, kept)


def _purpose(name: str) -> str:
    return f"secret {name}"
