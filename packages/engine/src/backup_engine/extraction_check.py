"""Check whether extracted files match the archive's listing: the rule for all restores."""

import os
import re
import stat
from dataclasses import dataclass, field

from backup_engine.events import Event, LogMessage
from backup_engine.listing import DIRECTORY, LINK, REGULAR, ListedFile

MOST_WARNINGS = 10_000
MOST_ATTRIBUTES = 1000
ABOUT_ATTRIBUTES = re.compile(r": (?:BackupOSError: )?(?:attrs|flags): |^when setting extended attribute ")
"""Warnings after which the content is complete, but an owner, a mode or an attribute was not restored."""

NOT_EXTRACTED = "the engine did not extract it"
WRONG_TYPE = "the engine extracted something else in its place"
WRONG_SIZE = "the engine extracted {found} of {wanted} bytes"
LINK_IN_THE_WAY = "the archive holds files below this symbolic link"
SPECIAL = "a FIFO or device is not restored"

EXPECTED_TYPE = {REGULAR: stat.S_IFREG, DIRECTORY: stat.S_IFDIR, LINK: stat.S_IFLNK}


@dataclass(slots=True)
class PathWarnings:
    """The engine's warnings about single paths during extraction."""

    about: dict[str, str] = field(default_factory=dict)
    """Maps each text that could be the path of a warning to the rest of that warning."""
    attributes: list[str] = field(default_factory=list)
    too_many: bool = False

    def on_event(self, event: Event) -> None:
        if not isinstance(event, LogMessage) or event.level != "WARNING" or not event.message.strip():
            return
        message = event.message
        if ABOUT_ATTRIBUTES.search(message):
            if len(self.attributes) < MOST_ATTRIBUTES:
                self.attributes.append(message)
            return
        if len(self.about) >= MOST_WARNINGS:
            self.too_many = True
            return
        cut = message.find(": ")
        while cut > 0:
            self.about.setdefault(message[:cut], message[cut + 2 :])
            cut = message.find(": ", cut + 1)

    def add(self, path: bytes, reason: str) -> None:
        self.about.setdefault(_as_written(path), reason)

    def of(self, path: bytes) -> str | None:
        return self.about.get(_as_written(path))


def _as_written(path: bytes) -> str:
    """A path as the engine writes it: with ``?`` for each byte that is not valid UTF-8."""
    return path.decode("utf-8", "surrogateescape").encode("utf-8", "replace").decode()


def mismatch(item: ListedFile, found: os.stat_result, path_warnings: PathWarnings) -> str | None:
    """The reason why an extracted file does not match its listed item and must not be moved into place; None if it
    does.
    """
    if stat.S_IFMT(found.st_mode) != EXPECTED_TYPE[item.type]:
        return WRONG_TYPE
    if complaint := path_warnings.of(item.path):
        return complaint
    if item.type == REGULAR and not item.is_hard_link and found.st_size != item.size:
        return WRONG_SIZE.format(found=found.st_size, wanted=item.size)
    return None
