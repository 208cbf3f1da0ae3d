"""Finds the file of the web UI's build that answers a path."""

import mimetypes
from pathlib import Path

from backup_engine.frozen import frozen

STATIC = Path(__file__).parent / "static"
PAGE = "index.html"
ASSETS = "assets/"
ENCODINGS = (("br", ".br"), ("gzip", ".gz"))
"""Compressed variants stored beside each file, best first."""
TYPES = {".js": "text/javascript", ".css": "text/css", ".woff2": "font/woff2", ".svg": "image/svg+xml"}


@frozen
class BuiltFile:
    body: bytes
    media_type: str
    encoding: str | None


class Built:
    """The files of the build folder. Only files found there are served; a new build is detected by its page."""

    def __init__(self, folder: Path = STATIC) -> None:
        self.folder = folder
        self._seen: int | None = None
        self._names: frozenset[str] = frozenset()
        self._page: str | None = None

    def page(self) -> str | None:
        """The HTML page, or None if the UI has not been built."""
        self._look()
        return self._page

    def find(self, name: str, accepted: str) -> BuiltFile | None:
        """Return the file with that name, compressed if the client accepts it."""
        self._look()
        if name not in self._names or name == PAGE:
            return None
        media_type = TYPES.get(Path(name).suffix) or mimetypes.guess_type(name)[0] or "application/octet-stream"
        offered = {part.split(";")[0].strip() for part in accepted.split(",")}
        try:
            for encoding, suffix in ENCODINGS:
                if encoding in offered and name + suffix in self._names:
                    return BuiltFile((self.folder / (name + suffix)).read_bytes(), media_type, encoding)
            return BuiltFile((self.folder / name).read_bytes(), media_type, None)
        except FileNotFoundError:
            return None  # a build is in progress

    def _look(self) -> None:
        try:
            seen: int | None = (self.folder / PAGE).stat().st_mtime_ns
        except OSError:
            seen = None
        if seen == self._seen:
            return
        try:
            self._page = (self.folder / PAGE).read_text() if seen is not None else None
        except OSError:
            self._page = None
        files = self.folder.rglob("*") if seen is not None else ()
        self._names = frozenset(str(path.relative_to(self.folder)) for path in files if path.is_file())
        self._seen = seen
