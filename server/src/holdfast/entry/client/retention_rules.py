"""The options for the archives that a prune keeps."""

from typing import Annotated

import typer

KeepWithin = Annotated[str | None, typer.Option(help="Keep all archives of this time span, such as 2d or 3w.")]
KeepLast = Annotated[int | None, typer.Option(min=0, help="Keep this many of the newest archives.")]
KeepHourly = Annotated[int | None, typer.Option(min=0, help="Keep one archive per hour, for this many hours.")]
KeepDaily = Annotated[int | None, typer.Option(min=0, help="Keep one archive per day, for this many days.")]
KeepWeekly = Annotated[int | None, typer.Option(min=0, help="Keep one archive per week, for this many weeks.")]
KeepMonthly = Annotated[int | None, typer.Option(min=0, help="Keep one archive per month, for this many months.")]
KeepYearly = Annotated[int | None, typer.Option(min=0, help="Keep one archive per year, for this many years.")]


def given(
    within: str | None,
    last: int | None,
    hourly: int | None,
    daily: int | None,
    weekly: int | None,
    monthly: int | None,
    yearly: int | None,
) -> dict[str, str | int]:
    """The rules that were given, as the service names them."""
    rules = {
        "keep_within": within,
        "keep_last": last,
        "keep_hourly": hourly,
        "keep_daily": daily,
        "keep_weekly": weekly,
        "keep_monthly": monthly,
        "keep_yearly": yearly,
    }
    return {name: value for name, value in rules.items() if value is not None}
