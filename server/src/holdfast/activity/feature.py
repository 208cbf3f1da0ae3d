"""The parts of the service that the activity and the overview contribute."""

from holdfast.activity import overview_routes, routes, timeline_routes
from holdfast.operations.manifest import Feature

FEATURE = Feature(name="activity", routers=(routes.routes, overview_routes.routes, timeline_routes.routes))
