"""The parts of the service that report on itself."""

from holdfast.operations.manifest import Feature
from holdfast.system.routes import health, system

FEATURE = Feature(name="system", routers=(system, health))
