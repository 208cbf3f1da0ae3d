"""The errors of mirrors and rclone, one row each: docs/errors.md is made from them."""

from holdfast.errors import Fact

FACTS = (
    Fact(
        "mirror.address_missing",
        (422,),
        "A repository in the cloud needs an address.",
        "Give `rclone:REMOTE:PATH`, or a folder and its mirror.",
    ),
    Fact(
        "mirror.bad_address",
        (422,),
        "The address is not of the form `rclone:REMOTE:PATH`.",
        "Use the name of a remote from `GET /api/rclone/remotes`.",
    ),
    Fact(
        "mirror.bad_destination",
        (422,),
        "The destination of the hydrate cannot be used.",
        "Choose an empty folder that the service may write.",
    ),
    Fact(
        "mirror.bad_path",
        (
            422,
            "test",
        ),
        "The path on the remote cannot be used.",
        "Choose another path; the message gives the reason.",
    ),
    Fact(
        "mirror.destination_taken",
        ("operation",),
        "Something else is stored at the mirror's place.",
        "Choose another path, or empty it.",
        "Nothing was written or deleted there.",
    ),
    Fact(
        "mirror.interval_missing", (422,), "The mode `interval` needs `interval_minutes`.", "Give `interval_minutes`."
    ),
    Fact("mirror.not_configured", (404,), "The repository has no mirror.", "`PUT` its mirror settings first."),
    Fact("mirror.not_confirmed", (422,), "A hydrate must be confirmed.", "Send `confirm: true`."),
    Fact(
        "mirror.not_local",
        (422,),
        "Only a repository in a folder of the service's own machine can be mirrored.",
        "Choose such a repository.",
    ),
    Fact(
        "mirror.nothing_mirrored",
        ("operation",),
        "The mirror's place holds no repository.",
        "Run a sync first, or correct the mirror's path.",
    ),
    Fact(
        "mirror.operation_running",
        (409,),
        "A sync or hydrate of this repository is running.",
        "Wait for it, or cancel it first.",
    ),
    Fact(
        "mirror.path_taken",
        (409,),
        "Another repository or mirror is stored at, above or below this place.",
        "Choose another path.",
    ),
    Fact(
        "mirror.settings_changed",
        (
            503,
            "operation",
        ),
        "The mirror was given another place while it was in use.",
        "Try again.",
    ),
    Fact(
        "mirror.source_changed",
        ("operation",),
        "The repository changed during the sync: another program writes to it, or its disk is gone.",
        "Check the repository's disk, then sync again.",
        "The mirror is completed by the next sync.",
    ),
    Fact(
        "mirror.source_suspicious",
        ("operation",),
        "The repository looks as if much of it was lost.",
        "Check the repository; to mirror it all the same, sync with `override_sanity`.",
        "The mirror was left as it is.",
    ),
    Fact(
        "mirror.verification_failed",
        ("operation",),
        "The copy is not equal to its source.",
        "Check the repository, then start again.",
        "The source is untouched.",
    ),
    Fact(
        "rclone.configuration_refused",
        (
            422,
            "operation",
        ),
        "rclone cannot use the remote's options.",
        "Compare them with `GET /api/rclone/providers`.",
    ),
    Fact(
        "rclone.credentials_refused",
        (
            422,
            "operation",
        ),
        "The remote refused the credentials.",
        "Correct the remote's user, password or keys.",
    ),
    Fact(
        "rclone.delete_failed",
        ("test",),
        "The test file could not be deleted.",
        "Check the rights on the path; delete the file by hand.",
    ),
    Fact(
        "rclone.failed",
        (
            422,
            "operation",
        ),
        "rclone failed.",
        "Read its message in the log.",
    ),
    Fact("rclone.name_taken", (409,), "A remote has this name already.", "Choose another name."),
    Fact(
        "rclone.not_found",
        (
            422,
            "operation",
        ),
        "The path does not exist on the remote.",
        "Check the path.",
    ),
    Fact("rclone.not_installed", (422,), "rclone is not installed.", "Install rclone, or set `HOLDFAST_RCLONE`."),
    Fact("rclone.option_missing", (422,), "The provider needs an option that is not given.", "Give the option."),
    Fact(
        "rclone.permission_denied",
        (
            422,
            "operation",
        ),
        "The remote does not allow reading or writing there.",
        "Check the rights on the path.",
    ),
    Fact(
        "rclone.read_back_failed",
        ("test",),
        "The test file could not be read back unchanged.",
        "Check the remote's options and the storage.",
    ),
    Fact(
        "rclone.remote_in_use",
        (409,),
        "Repositories are stored on this remote or mirrored to it.",
        "Forget them, or remove their mirror settings first.",
    ),
    Fact("rclone.remote_not_found", (404,), "There is no such remote.", "List the remotes."),
    Fact(
        "rclone.storage_full",
        (
            422,
            "operation",
        ),
        "No space is left at the destination.",
        "Free some, or choose another place.",
    ),
    Fact(
        "rclone.unknown_option",
        (422,),
        "The provider has no such option.",
        "`GET /api/rclone/providers` lists its options.",
    ),
    Fact(
        "rclone.unknown_provider",
        (422,),
        "This rclone has no such provider.",
        "`GET /api/rclone/providers` lists those that it has.",
    ),
    Fact(
        "rclone.unreachable",
        (
            422,
            "operation",
        ),
        "The remote cannot be reached.",
        "Check its address, the network, and whether the service there runs.",
    ),
    Fact("rclone.write_failed", ("test",), "The test file could not be written.", "Check the rights on the path."),
)
