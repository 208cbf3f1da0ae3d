"""The router that every domain uses: documented errors, no silent defaults."""

from typing import Any

from fastapi import APIRouter

from holdfast.api.answers import ALWAYS
from holdfast.api.late_route import LateRoute


def router(prefix: str, tag: str, **options: Any) -> APIRouter:
    return APIRouter(prefix=prefix, tags=[tag], responses=ALWAYS, route_class=LateRoute, **options)
