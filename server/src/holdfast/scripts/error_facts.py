"""The errors of scripts, one row each: docs/errors.md is made from them."""

from holdfast.errors import Fact

FACTS = (
    Fact(
        "scripts.bad_parameter",
        (422,),
        "A parameter of the script is missing or not allowed.",
        "Correct the parameter that the message names.",
    ),
    Fact(
        "scripts.content_missing",
        (422,),
        "The script has no content.",
        "Give its content; only a script for agents may name an installed file instead.",
    ),
    Fact(
        "scripts.declined",
        ("operation",),
        "The script reported that the operation should not go on.",
        "Read its output in the log.",
        "The steps after the script were not started.",
    ),
    Fact(
        "scripts.failed",
        ("operation",),
        "The script ended with an error.",
        "Read its output in the log.",
        "What the script did before stays; the steps after it were not started.",
    ),
    Fact(
        "scripts.in_use",
        (409,),
        "Schedules or running operations use the script.",
        "Remove it from the schedules first, and wait for its runs or cancel them.",
    ),
    Fact(
        "scripts.installed_elsewhere",
        (422,),
        "Only scripts for agents can name an installed file.",
        "Give the script's content.",
    ),
    Fact(
        "scripts.interrupted",
        ("operation",),
        "The script was interrupted, and what it did is not certain.",
        "Look at its output and at the machine, then run it again.",
        "The script is never run again without being asked.",
    ),
    Fact(
        "scripts.machine_without_python",
        (422,),
        "Scripts need Python 3.9 or newer on the machine.",
        "Install it there and test the connection again.",
    ),
    Fact("scripts.name_taken", (409,), "A script has this name already.", "Choose another name."),
    Fact("scripts.not_found", (404,), "There is no such script.", "List the scripts."),
    Fact(
        "scripts.not_started",
        ("operation",),
        "The script could not be started.",
        "Correct its interpreter, or install it on the machine.",
        "Nothing was run.",
    ),
    Fact(
        "scripts.repository_needed",
        (422,),
        "The script runs on the machine that opens a repository, and none is named.",
        "Name a repository.",
    ),
    Fact(
        "scripts.secrets_gone",
        ("operation",),
        "A secret of the script cannot be opened any more.",
        "Enter the secret again.",
        "Nothing was run.",
    ),
    Fact(
        "scripts.timed_out",
        ("operation",),
        "The script took longer than it may and was stopped.",
        "Give it more time, or make it faster.",
        "What the script did before stays.",
    ),
    Fact(
        "scripts.too_much_output",
        ("operation",),
        "The script wrote more than it may and was stopped.",
        "Let it write less.",
        "What the script did before stays.",
    ),
    Fact(
        "scripts.uses_do_not_fit",
        (422,),
        "Schedules that use the script do not fit its new parameters.",
        "Change the schedules first.",
    ),
    Fact(
        "scripts.version_conflict",
        (409,),
        "The script was changed by someone else.",
        "Read it again and repeat your change.",
    ),
    Fact(
        "scripts.version_not_found",
        (
            404,
            "operation",
        ),
        "The script has no such version.",
        "Choose one of its versions.",
    ),
    Fact(
        "scripts.once_elsewhere",
        (422,),
        "A step with `scope: once` names a script that runs on the machines of the repositories.",
        "Choose a script that runs on the service, or `scope: each`.",
        "Nothing was changed.",
    ),
    Fact(
        "scripts.wrong_place",
        (422,),
        "The script runs only on another kind of machine than the one that opens the repository.",
        "Choose another script or repository.",
    ),
)
