"""An engine's messages while it runs: one value for each line of its standard error.

Text may contain bytes that are not valid UTF-8 as ``surrogateescape`` surrogates (U+DC80 to U+DCFF), but no other
surrogates. The engine may omit any field: sizes are then None and text is empty.
"""

from backup_engine.frozen import frozen


@frozen
class ArchiveProgress:
    """Progress of a backup. The engine does not know the total."""

    original_size: int | None = None
    compressed_size: int | None = None
    deduplicated_size: int | None = None
    nfiles: int | None = None
    path: str | None = None
    time: float | None = None
    finished: bool = False


@frozen
class StepProgress:
    """One step of the engine's work. ``operation`` distinguishes the steps of a run."""

    operation: int | None = None
    msgid: str | None = None
    message: str = ""
    time: float | None = None
    finished: bool = False


@frozen
class ProgressMessage(StepProgress):
    """A step that takes a while and cannot be measured."""


@frozen
class ProgressPercent(StepProgress):
    """A step with a known end. ``total`` is 0 or None while the engine is still counting."""

    current: int | None = None
    total: int | None = None
    info: tuple[str, ...] = ()


@frozen
class FileStatus:
    """Status of one file: A added, M modified, U unchanged, C changed while read, E error, and others."""

    status: str
    path: str


@frozen
class LogMessage:
    """``level`` is a level of Python's logging in capitals, ``name`` the logger, ``msgid`` the stable message id."""

    level: str
    name: str
    msgid: str | None
    message: str
    time: float | None = None


@frozen
class QuestionPrompt:
    """The engine asks a question; ``msgid`` is the variable that answers it."""

    msgid: str | None
    message: str


@frozen
class QuestionAnswer:
    """How the engine interpreted the answer; ``accepted`` is None if the engine does not report that."""

    msgid: str | None
    message: str
    accepted: bool | None = None


@frozen
class PlainLine:
    """Text that is not JSON: usage errors, output of ssh or the dynamic linker."""

    text: str


@frozen
class UnknownMessage:
    """JSON that this version does not recognise. The content is dropped."""

    type: str


Event = (
    ArchiveProgress
    | ProgressMessage
    | ProgressPercent
    | FileStatus
    | LogMessage
    | QuestionPrompt
    | QuestionAnswer
    | PlainLine
    | UnknownMessage
)
