"""The service's own log: readable lines on a terminal, JSON lines elsewhere."""

import logging
import sys

import structlog

from holdfast.entry.client.text import clean
from holdfast.settings import Settings


def _harmless(_logger: object, _method: str, event: structlog.types.EventDict) -> structlog.types.EventDict:
    """Clean file names and other external text in log entries, so that they cannot control a terminal."""
    return {name: clean(value) if isinstance(value, str) else value for name, value in event.items()}


def configure(settings: Settings) -> None:
    to_console = settings.log_format == "console" or (settings.log_format == "auto" and sys.stderr.isatty())
    # Plain tracebacks: the default ones show local variables, which include passwords.
    renderer: structlog.types.Processor = (
        structlog.dev.ConsoleRenderer(exception_formatter=structlog.dev.plain_traceback)
        if to_console
        else structlog.processors.JSONRenderer()
    )
    structlog.configure(
        processors=[
            structlog.contextvars.merge_contextvars,
            structlog.processors.add_log_level,
            structlog.processors.TimeStamper(fmt="iso", utc=True),
            structlog.processors.format_exc_info if not to_console else structlog.processors.StackInfoRenderer(),
            *((_harmless,) if to_console else ()),
            renderer,
        ],
        wrapper_class=structlog.make_filtering_bound_logger(logging.getLevelName(settings.log_level)),
        logger_factory=structlog.PrintLoggerFactory(sys.stderr),
        cache_logger_on_first_use=True,
    )
    logging.basicConfig(level=logging.WARNING, stream=sys.stderr, format="%(name)s: %(message)s")
