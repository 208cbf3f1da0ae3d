"""The plan that each feature requires. The owner of the machine sets the plan; there is no licence server."""

from typing import Annotated, Literal

from fastapi import Depends

from holdfast.access.caller import SignedIn
from holdfast.api.dependencies import TheSettings
from holdfast.errors import PlanRefusal
from holdfast.settings import Settings

Plan = Literal["community", "pro"]
Feature = Literal["archive_history", "heatmap_outliers", "overdue_flags"]

PLANS: tuple[Plan, ...] = ("community", "pro")
FEATURES: dict[Feature, Plan] = {
    "archive_history": "pro",
    "heatmap_outliers": "pro",
    "overdue_flags": "pro",
}


def has_feature(settings: Settings, feature: Feature) -> bool:
    return PLANS.index(settings.plan) >= PLANS.index(FEATURES[feature])


def require_feature(settings: Settings, feature: Feature) -> None:
    if not has_feature(settings, feature):
        raise PlanRefusal(feature, required=FEATURES[feature], current=settings.plan)


async def needs_archive_history(_caller: SignedIn, settings: TheSettings) -> None:
    """Depends on a signed-in caller first, so that strangers learn nothing about the plan."""
    require_feature(settings, "archive_history")


NeedsArchiveHistory = Annotated[None, Depends(needs_archive_history)]
