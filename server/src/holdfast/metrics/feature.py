"""The metrics feature: the parts it adds to the service."""

from holdfast.api.dependencies import DATABASE, SETTINGS, SUPERVISOR
from holdfast.api.parts import Parts
from holdfast.metrics import totals
from holdfast.metrics.ping import EVERY_SECONDS, Ping
from holdfast.metrics.routes import routes
from holdfast.metrics.scrape import METRICS, Metrics
from holdfast.operations.manifest import Feature, Tick
from holdfast.repositories.overdue import OVERDUE_RULES


def _metrics(parts: Parts) -> Metrics:
    return Metrics(parts[DATABASE], parts[SETTINGS].metrics_most_series, parts[OVERDUE_RULES])


def _ticks(parts: Parts) -> tuple[Tick, ...]:
    url = parts[SETTINGS].ping_url
    if url is None:
        return ()
    ping = Ping(url.get_secret_value(), parts[DATABASE], parts[SUPERVISOR])
    return (Tick("ping", EVERY_SECONDS, ping.step, "runner"),)


FEATURE = Feature(
    name="metrics",
    routers=(routes,),
    provides=(METRICS.made_by(_metrics),),
    readers=lambda _parts: (totals.READER,),
    ticks=_ticks,
)
