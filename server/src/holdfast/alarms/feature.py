"""The parts of the service that alarms contribute."""

from holdfast.alarms.evaluate import Rounds
from holdfast.alarms.routes import routes
from holdfast.repositories.overdue import OverdueRules
from holdfast.storage.session import Database

ROUTERS = (routes,)
LOOK_SECONDS = 10.0
"""How often each process checks whether a minute has had its round; the round itself is one for all."""


def build(database: Database, rules: OverdueRules) -> Rounds:
    return Rounds(database, rules)
