"""The errors of prunes, restore checks, deletions and wipes, one row each: docs/errors.md is made from them."""

from holdfast.errors import Fact

FACTS = (
    Fact(
        "archives.bad_id",
        (422,),
        "The archive is not given by its id.",
        "Give its id, or add `?repository=<path>` to give its name.",
    ),
    Fact(
        "archives.gone",
        ("operation",),
        "The archive is no longer in the repository.",
        "Refresh the list of archives.",
    ),
    Fact(
        "archives.name_ambiguous",
        (
            409,
            "operation",
        ),
        "Several archives have this name.",
        "Name the archive by its id.",
    ),
    Fact(
        "archives.protected",
        (
            409,
            "operation",
        ),
        "The archive is protected, or has the tag @PROT, for which the engine kept it.",
        "Remove the protection, or the tag, to delete it.",
        "The archive is untouched.",
    ),
    Fact(
        "prune.empty_policy",
        (422,),
        "The retention policy keeps nothing.",
        "Give at least one keep value, or set the repository's retention.",
    ),
    Fact(
        "prune.rules_disagree",
        ("operation",),
        "The engine would keep other archives than the retention policy says.",
        "Look at the dry run and at the log; this version of the engine may have other rules.",
        "Nothing was removed.",
    ),
    Fact(
        "prune.series_ambiguous",
        ("operation",),
        "Other archives match the names of this series.",
        "Give the series a template of its own.",
        "Nothing was removed.",
    ),
    Fact(
        "prune.would_remove_everything",
        ("operation",),
        "The policy would remove every archive.",
        "Choose a policy that keeps some.",
        "Nothing was removed.",
    ),
    Fact(
        "restore_check.canary_too_large",
        ("operation",),
        "The canary file is too large.",
        "Check a larger file by its path.",
        "The archive is untouched.",
    ),
    Fact(
        "restore_check.canary_unknown",
        ("operation",),
        "The expected content of the canary is not known.",
        "Give its hash, or run a check that records it first.",
        "The archive is untouched.",
    ),
    Fact(
        "restore_check.contradiction",
        (422,),
        "The request combines options that exclude each other.",
        "Give one of `paths`, `full_archive`, `sample`, `canary`, and one of `archive_id`, `archive`.",
    ),
    Fact("restore_check.no_archive", ("operation",), "The repository has no archive to check.", "Make a backup first."),
    Fact(
        "restore_check.not_proven",
        ("operation",),
        "Not every file could be proven.",
        "Read the problems in the result; check the repository.",
        "The archive is untouched.",
    ),
    Fact(
        "restore_check.path_missing",
        ("operation",),
        "The archive does not hold a file that the check names.",
        "Correct the path, or check another archive.",
        "The archive is untouched.",
    ),
    Fact(
        "wipe.confirmation_mismatch",
        (422,),
        "The confirmation does not match.",
        "Type the phrase exactly, and confirm that you understand what will be lost.",
    ),
    Fact("wipe.preview_not_found", (404,), "There is no such preview of this repository.", "Make a new preview."),
    Fact(
        "wipe.preview_stale",
        (
            409,
            "operation",
        ),
        "The archives have changed since the preview.",
        "Make a new preview first.",
        "Nothing was removed.",
    ),
    Fact(
        "wipe.protected",
        (
            409,
            "operation",
        ),
        "Archives of the repository are protected.",
        "Remove their protection first.",
        "Nothing was removed.",
    ),
    Fact("wipe.preview_used", (409,), "The preview was started or cancelled before.", "Make a new preview."),
)
