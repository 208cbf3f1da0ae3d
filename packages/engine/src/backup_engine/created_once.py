"""Files that are created only once, by the first of several processes."""

import os
from pathlib import Path


def create_once(file: Path, text: str) -> str:
    """Return the content of the file. If it does not exist, create it durably with this text."""
    if not file.exists():
        part = file.with_name(f"{file.name}.{os.urandom(16).hex()}")
        with os.fdopen(os.open(part, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as stream:
            stream.write(text)
            stream.flush()
            os.fsync(stream.fileno())
        try:
            os.link(part, file)
        except FileExistsError:
            pass
        finally:
            part.unlink()
    return file.read_text()
