"""Creates the routers of all domains, with documented errors and routes that are built on first use."""

from typing import Any

from fastapi import APIRouter

from holdfast.api.answers import ALWAYS
from holdfast.api.lazy_route import LazyRoute


def router(prefix: str, tag: str, **options: Any) -> APIRouter:
    return APIRouter(prefix=prefix, tags=[tag], responses=ALWAYS, route_class=LazyRoute, **options)
