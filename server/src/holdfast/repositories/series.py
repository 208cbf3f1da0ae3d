"""To which series an archive belongs: its name without the time in it."""

import re

TIME = re.compile(
    r"""[-_.+@ ]*
    (?:
        \d{4}-?\d{2}-?\d{2}                                     # 2026-11-15, 20261115
        (?:[T_ .+-]?\d{2}[:.h-]?\d{2}(?:[:.m-]?\d{2}(?:[.,]\d{1,9})?)?)?   # T10:48:01.123, _1048, -104801
        (?:Z|[+-]\d{2}:?\d{2})?
      | 1\d{9}(?:\.\d{1,9})?                                    # seconds since 1970
    )
    (?![0-9])""",
    re.VERBOSE,
)
UNNAMED = "archives"


def series_of(name: str) -> str:
    """Given an archive's name, return what is left of it without timestamps."""
    rest = TIME.sub("", name).strip("-_.+@ ")
    return rest or UNNAMED
