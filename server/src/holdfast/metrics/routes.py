"""`GET /metrics`, for Prometheus and other readers of its text format."""

from typing import Annotated

from fastapi import Depends, Response

from holdfast.access.caller import metrics_reader
from holdfast.api.answers import documented
from holdfast.api.router import router
from holdfast.metrics.exposition import CONTENT_TYPE
from holdfast.metrics.scrape import METRICS, Metrics

routes = router("", "metrics", dependencies=[Depends(metrics_reader)])


@routes.get(
    "/metrics",
    summary="Metrics for Prometheus",
    response_class=Response,
    responses={200: {"content": {"text/plain": {"schema": {"type": "string"}}}}, **documented(404)},
)
def read_metrics(metrics: Annotated[Metrics, Depends(METRICS)]) -> Response:
    """The text format 0.0.4, at most ten seconds old.

    Requires an admin's login, or an account token with scope `metrics`.
    """
    return Response(metrics.text(), media_type=CONTENT_TYPE)
