"""The errors of restores and downloads, one row each: docs/errors.md is made from them."""

from holdfast.errors import Fact

FACTS = (
    Fact("archives.not_a_file", (422,), "The path does not name a regular file.", "Download a folder as tar or zip."),
    Fact("restore.agent_missing", (422,), "A restore to an agent needs `destination_machine_id`.", "Name the agent."),
    Fact(
        "restore.agent_too_old",
        (422,),
        "The agent cannot receive files of another machine's repository, or has never connected.",
        "Update and start the agent.",
    ),
    Fact(
        "restore.archive_unclear",
        (422,),
        "The request names no archive, or two.",
        "Give either `archive_id` or `archive`.",
    ),
    Fact(
        "restore.bad_destination",
        (422,),
        "The destination is not an absolute path, or contains `..`.",
        "Correct the destination.",
    ),
    Fact(
        "restore.bad_path", (422,), "A path inside an archive is not relative, or contains `..`.", "Correct the path."
    ),
    Fact(
        "restore.conflicts",
        ("operation",),
        "Files exist at the destination.",
        "Choose what happens to existing files, or another destination.",
        "Nothing was restored; existing files are untouched.",
    ),
    Fact(
        "restore.destination_forbidden",
        (
            422,
            "operation",
        ),
        "The destination is inside a repository or the service's own data.",
        "Choose another destination.",
        "Nothing was restored.",
    ),
    Fact(
        "restore.destination_is_link",
        (
            422,
            "operation",
        ),
        "A place on the way to the destination is a symbolic link.",
        "Name the folder that it leads to.",
        "Nothing was written through it.",
    ),
    Fact(
        "restore.destination_unusable",
        (
            422,
            "operation",
        ),
        "The destination cannot be used; the message gives the reason.",
        "Correct it, or choose another destination.",
        "Existing files are untouched.",
    ),
    Fact("restore.grant_not_found", (404,), "There is no such grant.", "List the grants."),
    Fact(
        "restore.grant_unclear",
        (422,),
        "The grant names neither a user nor a role, or both.",
        "Give either `user_id` or `role`.",
    ),
    Fact(
        "restore.incomplete",
        ("operation",),
        "Some files could not be restored.",
        "Read the warnings; restore the missing files again.",
        "The files that were restored are complete.",
    ),
    Fact("restore.listing_too_large", (413,), "The archive is too large for a preview.", "Start a dry run instead."),
    Fact(
        "restore.machine_missing",
        (422,),
        "A restore by ssh needs `destination_machine_id`.",
        "Name the ssh connection.",
    ),
    Fact(
        "restore.names_collide",
        ("operation",),
        "Several of the wanted folders hold the same names.",
        "Restore them separately, or without `contents_only`.",
        "Nothing was restored.",
    ),
    Fact(
        "restore.not_allowed_there",
        ("operation",),
        "The agent's own settings do not allow restores to this folder.",
        "Allow the folder in the agent's configuration.",
        "Nothing was restored.",
    ),
    Fact(
        "restore.not_answered",
        (422,),
        "The machine could not report what is at the destination.",
        "Try again; the message has the machine's answer.",
    ),
    Fact(
        "restore.not_granted",
        (
            403,
            "operation",
        ),
        "The right to restore to this folder was withdrawn.",
        "Ask an admin for a grant.",
        "Nothing was restored.",
    ),
    Fact(
        "restore.not_received",
        ("operation",),
        "The agent did not receive all files.",
        "Start the restore again.",
        "Files that were complete are kept.",
    ),
    Fact("restore.path_unclear", (422,), "The request names no path, or two.", "Give either `path` or `path_b64`."),
    Fact(
        "restore.paths_overlap",
        (422,),
        "One of the paths is below another one.",
        "Leave the lower one out, or restore without `contents_only`.",
    ),
    Fact(
        "restore.python_missing",
        (422,),
        "A restore to an ssh machine needs Python 3.9 or newer there.",
        "Install Python there.",
    ),
    Fact(
        "restore.range_outside",
        (416,),
        "The file has none of the bytes that `Range` asks for.",
        "Ask for bytes within the size that `Content-Range` names.",
    ),
    Fact(
        "restore.repository_unclear",
        (422,),
        "The request names no repository, or two.",
        "Give either `repository_id` or `repository`.",
    ),
    Fact(
        "restore.target_not_found",
        (404,),
        "There is no such target for this user.",
        "Choose one that the list of targets shows.",
    ),
    Fact(
        "restore.too_many_downloads",
        (
            429,
            503,
        ),
        "Too many downloads are running.",
        "Try again when one has ended.",
    ),
    Fact("restore.unknown_agent", (422,), "There is no such agent.", "Enrol the agent first."),
    Fact("restore.unknown_machine", (422,), "There is no such ssh connection.", "Add it first, and test it."),
    Fact("restore.unknown_user", (422,), "There is no such user.", "List the users."),
    Fact(
        "restore.unsafe_archive",
        ("operation",),
        "The archive holds names that lead out of the destination.",
        "Restore the other paths separately.",
        "Nothing was written outside the destination.",
    ),
    Fact(
        "restore.unsupported_target",
        (422,),
        "The destination cannot be combined with `destination_machine_id`.",
        "Leave it out for the service's own machine.",
    ),
    Fact(
        "downloads.bad_ticket",
        (401,),
        "The download ticket is not valid, has expired or was used already.",
        "Request a new ticket.",
    ),
    Fact(
        "downloads.paths_too_long",
        (422,),
        "The paths are too long for one download.",
        "Choose folders instead of files.",
    ),
    Fact("downloads.too_many_tickets", (429,), "Too many download tickets are open.", "Use them, or try again later."),
)
