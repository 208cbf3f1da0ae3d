"""`holdfast retention`: which archives of a repository a prune keeps."""

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Annotated, Any

import typer

from holdfast.entry.client import exit_codes, retention_strip
from holdfast.entry.client.connection import Api
from holdfast.entry.client.groups import group
from holdfast.entry.client.lookup import REPOSITORIES, Repository
from holdfast.entry.client.option_groups import NOTHING, Given, with_options
from holdfast.entry.client.output import AsJson, fail, flag, print_json, remark, say
from holdfast.entry.client.retention_rules import NO_RULES, OPTIONS, Rules, with_rules
from holdfast.entry.client.table import print_fields

retention = group(
    "Retention: which archives a repository keeps when pruned.",
    "holdfast retention show etc",
    "holdfast retention set etc --keep-daily 7 --keep-weekly 4 --keep-monthly 6",
    "holdfast retention simulate etc",
    "holdfast retention compare etc --keep-daily 14 --keep-monthly 12 --days 365",
    "holdfast retention past etc --days 365",
)

Days = Annotated[
    int | None,
    typer.Option(
        min=0, max=731, help="Number of days to look ahead (default: 90, fewer if backups are very frequent)."
    ),
]
Every = Annotated[
    int | None,
    typer.Option(
        "--every-minutes",
        min=5,
        help="Minutes between future backups (default: as scheduled, or as often as so far).",
    ),
]
Series = Annotated[str | None, typer.Option(help="Only archives of this series, as shown by `holdfast archives`.")]


with_ahead = with_options(rules=OPTIONS, ahead={"days": Days, "every": Every, "series": Series})


@retention.command("show")
def show_retention(repository: Repository, as_json: AsJson = False) -> None:
    """Show the rules of a repository."""
    _, found = REPOSITORIES.chosen(repository)
    if as_json:
        print_json(found["retention"])
    else:
        _print(found)


@retention.command("set")
@with_rules
def set_retention(
    repository: Repository,
    rules: Rules = NO_RULES,
    add: Annotated[bool, flag("--add", "Keep rules that are not specified instead of dropping them.")] = False,
    as_json: AsJson = False,
) -> None:
    """Set the rules of a repository. Nothing is removed before the next prune."""
    if not rules:
        fail(
            "specify at least one rule, such as --keep-daily 7. Drop all rules with: holdfast retention clear",
            exit_codes.USAGE,
        )
    service, found = REPOSITORIES.chosen(repository)
    before = {name: value for name, value in found["retention"].items() if value is not None} if add else {}
    _change(service, found, {**before, **rules}, as_json=as_json)


@retention.command("clear")
def clear_retention(repository: Repository, as_json: AsJson = False) -> None:
    """Drop all rules of a repository; prunes without rules of their own are then refused."""
    service, found = REPOSITORIES.chosen(repository)
    _change(service, found, {}, as_json=as_json)


@retention.command("simulate")
@with_ahead
def simulate_retention(
    repository: Repository, rules: Rules = NO_RULES, ahead: Given = NOTHING, as_json: AsJson = False
) -> None:
    """Show what the rules of a repository, or the given ones, would keep today and later. Nothing is removed."""
    _simulate(repository, {"policy": rules or None}, as_json=as_json, **ahead)


@retention.command("compare")
@with_ahead
def compare_retention(
    repository: Repository, rules: Rules = NO_RULES, ahead: Given = NOTHING, as_json: AsJson = False
) -> None:
    """Compare a repository's rules with the given ones: what each would keep today and later."""
    if not rules:
        fail("specify at least one rule to compare with, such as --keep-daily 14", exit_codes.USAGE)
    _simulate(repository, {"compare_with": rules}, as_json=as_json, **ahead)


@retention.command("past")
def past_retention(
    repository: Repository,
    days: Annotated[int, typer.Option(min=0, max=3660, help="Number of days to look back.")] = 90,
    as_json: AsJson = False,
) -> None:
    """Show which restore points existed on past days, and which of them are left."""
    service, found = REPOSITORIES.chosen(repository)
    answer = service.get(f"{REPOSITORIES.url_of(found)}/retention/past", days=days)
    _draw(retention_strip.draw_past, found["name"], answer, as_json=as_json)


def _simulate(
    repository: str,
    wanted: dict[str, Any],
    *,
    days: int | None = None,
    every: int | None = None,
    series: str | None = None,
    as_json: bool,
) -> None:
    service, found = REPOSITORIES.chosen(repository)
    until = None if days is None else (datetime.now(UTC) + timedelta(days=days)).date().isoformat()
    body = {**wanted, "series": series, "until": until, "every_minutes": every}
    answer = service.post(f"{REPOSITORIES.url_of(found)}/retention/simulate", body)
    _draw(retention_strip.draw, found["name"], answer, as_json=as_json)


def _draw(drawing: Callable[[str, dict[str, Any]], None], name: str, answer: dict[str, Any], *, as_json: bool) -> None:
    if as_json:
        print_json(answer)
        return
    try:
        drawing(name, answer)
    except (LookupError, ValueError):
        fail("the response cannot be drawn; see it with --json", exit_codes.FAILED)


def _change(service: Api, repository: dict[str, Any], rules: dict[str, Any], *, as_json: bool) -> None:
    answer = service.put(REPOSITORIES.url_of(repository), {"retention": rules})
    if as_json:
        print_json(answer["retention"])
        return
    _print(answer)
    if rules:
        remark(f"See what would be removed: holdfast prune {answer['name']} --dry-run")


def _print(repository: dict[str, Any]) -> None:
    rules = [(name.replace("_", " "), value) for name, value in repository["retention"].items() if value is not None]
    if rules:
        print_fields(repository, rules)
    else:
        say(f"{repository['name']} has no retention rules: nothing is pruned. Set some: holdfast retention set")
