"""The key in an archive's comment, which identifies the job that created the archive.

The key is the last word of the comment. All words before it belong to the user, whatever they look like: a comment
copied from another archive does not make an archive belong to another job.
"""

PREFIX = "holdfast:"


def key_in(comment: str | None) -> str | None:
    """Return the key at the end of a comment; None if there is none."""
    last = (comment or "").split()[-1:]
    return last[0] if last and last[0].startswith(PREFIX) else None
