"""The errors of packages, one row each: docs/errors.md is made from them."""

from holdfast.errors import Fact

FACTS = (
    Fact(
        "packages.install_active",
        (409,),
        "An install of this package is waiting or running.",
        "Cancel it, or wait for it.",
    ),
    Fact(
        "packages.install_failed",
        ("operation",),
        "The install command failed.",
        "Read its output in the log.",
        "The command may have changed the machine.",
    ),
    Fact("packages.name_taken", (409,), "A package has this name already.", "Choose another name."),
    Fact("packages.not_found", (404,), "There is no such package.", "List the packages."),
    Fact(
        "packages.not_started",
        ("operation",),
        "The install command could not be started.",
        "Correct the command.",
        "Nothing was installed.",
    ),
    Fact("packages.value_missing", (422,), "A field cannot be null.", "Give the field a value."),
)
