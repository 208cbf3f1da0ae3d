"""The key in an archive's comment, which identifies the job that made the archive.

It is the last word of the comment. Words before it are a person's, whatever they look like: a comment that was copied
from another archive does not make an archive that of another job.
"""

PREFIX = "holdfast:"


def key_in(comment: str | None) -> str | None:
    """Given a comment, return the key at its end; None if it has none."""
    last = (comment or "").split()[-1:]
    return last[0] if last and last[0].startswith(PREFIX) else None
