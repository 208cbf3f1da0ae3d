"""What the activity history and the overview contribute to the service: their routes."""

from holdfast.activity import overview_routes, routes, timeline_routes
from holdfast.operations.manifest import Feature

FEATURE = Feature(name="activity", routers=(routes.routes, overview_routes.routes, timeline_routes.routes))
