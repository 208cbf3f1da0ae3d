"""The parts of the service that packages contribute."""

from holdfast.operations.manifest import Feature
from holdfast.packages import install
from holdfast.packages.routes import routes

FEATURE = Feature(name="packages", routers=(routes,), kinds=lambda _parts: (install.kind(),))
