"""The errors of archives and the file history, one row each: docs/errors.md is made from them."""

from holdfast.errors import Fact

FACTS = (
    Fact("archives.bad_change", (422,), "`change` is not one of added, removed, modified.", "Use one of these."),
    Fact(
        "archives.bad_path",
        (422,),
        "The path is missing, or cannot be the path of a file.",
        "Give a path as the archive lists it, or `path_b64`.",
    ),
    Fact(
        "archives.bad_span",
        (422,),
        "The number of days is out of range.",
        "Use a span within the limits in the message.",
    ),
    Fact(
        "archives.sort_needs_index",
        (409,),
        "The archive is not indexed, and the engine's listing is only sorted by name.",
        "Sort by name, or wait until the archive is indexed.",
    ),
    Fact(
        "archives.being_removed",
        (409,),
        "A prune, a deletion or a wipe of this repository runs, or waits on its agent.",
        "Try again when it has ended, or cancel it.",
        "Nothing was changed.",
    ),
    Fact(
        "archives.protection_unsupported",
        (409,),
        "The agent of the repository is too old to spare protected archives.",
        "Update the agent.",
        "Nothing was changed.",
    ),
    Fact(
        "archives.too_many_protected",
        (409,),
        "1,000 archives of the repository are protected already.",
        "Remove the protection of one, or use a retention policy that keeps more.",
        "Nothing was changed.",
    ),
    Fact("archives.empty_query", (422,), "There is nothing to search for.", "Give a search text."),
    Fact(
        "archives.index_damaged",
        ("operation",),
        "The file history was damaged and is built again.",
        "Wait for the next index run.",
        "Repositories and archives are untouched; the history is derived from them.",
    ),
    Fact(
        "archives.index_disk_full",
        ("operation",),
        "There is no space for the file history.",
        "Free space in the data folder; the next run continues.",
        "Repositories and archives are untouched.",
    ),
    Fact(
        "archives.index_unavailable",
        (
            503,
            "operation",
        ),
        "The file history cannot be read at the moment.",
        "Try again; check the disk of the data folder.",
        "Repositories and archives are untouched.",
    ),
    Fact(
        "archives.lost",
        (409,),
        "The archive was lost when an older copy of the repository was put back.",
        "Restore from another archive.",
        "Only the record of the archive is left.",
    ),
    Fact(
        "archives.not_found",
        (
            404,
            "operation",
        ),
        "There is no such archive.",
        "Refresh the list of archives.",
    ),
    Fact(
        "archives.path_not_found",
        (
            404,
            "operation",
        ),
        "The archive does not hold this path.",
        "Look the path up in the archive.",
    ),
    Fact(
        "archives.unknown_timezone",
        (422,),
        "The time zone is not a known IANA name.",
        "Use a name such as Europe/Berlin.",
    ),
    Fact(
        "archives.which_repository",
        (422,),
        "The request does not name a repository.",
        "Give `repository` or `repository_id`.",
    ),
    Fact(
        "history.archive_gone",
        ("operation",),
        "An archive was removed before its files were indexed.",
        "Nothing needs to be done.",
        "Other archives are indexed.",
    ),
    Fact(
        "history.too_large",
        ("operation",),
        "The list of an archive's files is too large to index.",
        "Restore and browse it directly; search does not find it.",
        "The archive itself is untouched.",
    ),
    Fact(
        "history.unreadable",
        ("operation",),
        "The list of an archive's files could not be read.",
        "Check the repository; the next index run tries again.",
        "The archive itself is untouched.",
    ),
    Fact("archives.bad_repository_id", (422,), "`repository_id` is not a number.", "Give the id of a repository."),
    Fact(
        "retention.too_much",
        (422,),
        "There are too many backups and archives to simulate.",
        "Choose an earlier last day, fewer backups, or one series.",
    ),
    Fact(
        "retention.until_out_of_range",
        (422,),
        "The last day of a simulation is in the past or too far ahead.",
        "Choose a day between today and 731 days ahead.",
    ),
)
