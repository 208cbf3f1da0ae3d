"""The errors of backups, one row each: docs/errors.md is made from them."""

from holdfast.errors import Fact

FACTS = (
    Fact(
        "backup.bad_archive_name", (422,), "The archive name is empty or not allowed.", "Choose another archive name."
    ),
    Fact("backup.no_sources", (422,), "The repository has no source paths.", "Give it source paths first."),
    Fact(
        "backup.own_places",
        ("operation",),
        "The sources hold only the service's own data, which backups leave out.",
        "To back it up, an admin names it in the sources and confirms it.",
        "No archive was made.",
    ),
    Fact(
        "backup.sources_not_allowed",
        (
            403,
            "operation",
        ),
        "Only an admin may back up paths outside the repository's sources.",
        "Leave `source_paths` out, or name paths below the sources.",
        "No archive was made.",
    ),
    Fact(
        "backup.unknown_placeholder",
        (422,),
        "The archive name has an unknown placeholder.",
        "Use the placeholders in the API reference.",
    ),
    Fact("repository.source_not_absolute", (422,), "A source path is not absolute.", "Give absolute paths."),
)
