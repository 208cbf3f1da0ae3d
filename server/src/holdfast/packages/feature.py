"""The parts of the service that packages contribute."""

from holdfast.operations.kinds import Kind
from holdfast.packages import install
from holdfast.packages.routes import routes

ROUTERS = (routes,)


def kinds() -> tuple[Kind, ...]:
    return (install.kind(),)
