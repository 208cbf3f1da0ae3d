"""The errors of schedules, one row each: docs/errors.md is made from them."""

from holdfast.errors import Fact

FACTS = (
    Fact(
        "schedules.already_running",
        (409,),
        "A run of this schedule has not ended yet.",
        "Wait for it, or cancel it.",
        "Nothing was started.",
    ),
    Fact(
        "schedules.bad_cron",
        (422,),
        "The cron expression is not valid.",
        "Give minute, hour, day of month, month, day of week.",
    ),
    Fact(
        "schedules.bad_steps",
        ("operation",),
        "The steps of the schedule are not valid for this version of the service.",
        "Edit the schedule and save it again.",
        "Nothing was started.",
    ),
    Fact("schedules.blackout_not_found", (404,), "There is no such blackout.", "List the blackouts."),
    Fact(
        "schedules.field_missing",
        (422,),
        "The mode of the schedule needs a field that is not given.",
        "Give the field that the message names.",
    ),
    Fact("schedules.name_taken", (409,), "A schedule has this name already.", "Choose another name."),
    Fact("schedules.never_fires", (422,), "No day matches the cron expression.", "Correct the expression."),
    Fact(
        "schedules.never_in_window",
        (422,),
        "No window opens between a due time and the next one.",
        "Move the windows or the times.",
    ),
    Fact(
        "schedules.no_retention",
        (422,),
        "The prune step keeps nothing.",
        "Give it a keep rule, or give the repositories a retention.",
    ),
    Fact("schedules.no_such_step", (422,), "The schedule has no such step.", "Use one of its steps."),
    Fact(
        "schedules.no_targets",
        (422,),
        "The schedule, or this run of it, has no targets.",
        "Give `repository_ids`, `labels`, or `all`.",
        "Nothing was started.",
    ),
    Fact(
        "schedules.not_a_target",
        (422,),
        "The schedule does not include this repository.",
        "Choose a repository of the schedule.",
    ),
    Fact("schedules.not_found", (404,), "There is no such schedule.", "List the schedules."),
    Fact(
        "schedules.not_in_the_future",
        (422,),
        "The snooze does not end in the future.",
        "Give a later time, or null to end the snooze.",
    ),
    Fact(
        "schedules.revision_conflict",
        (409,),
        "The schedule was changed by someone else.",
        "Read it again and repeat your change.",
    ),
    Fact("schedules.run_ended", (409,), "The run has ended already.", "Nothing needs to be done."),
    Fact("schedules.run_is_over", (409,), "The run has ended already.", "Nothing needs to be cancelled."),
    Fact("schedules.run_not_found", (404,), "There is no such run.", "List the runs of the schedule."),
    Fact(
        "schedules.span_too_long", (422,), "The calendar cannot show this many days at once.", "Ask for a shorter span."
    ),
    Fact(
        "schedules.step_unsupported",
        (422,),
        "A repository of the schedule cannot do one of the steps.",
        "Remove the step or the repository; the message names both.",
    ),
    Fact(
        "schedules.too_often",
        (422,),
        "The due times are too close together.",
        "Leave at least the minutes that the message names.",
    ),
    Fact(
        "schedules.unknown_outcome",
        (422,),
        "There is no such outcome.",
        "Use one of the outcomes in the API reference.",
    ),
    Fact(
        "schedules.unknown_timezone",
        (422,),
        "There is no time zone of this name.",
        "Use an IANA name such as Europe/Berlin.",
    ),
    Fact("schedules.uuid_taken", (409,), "A schedule has this uuid already.", "Leave it out to get a new one."),
)
