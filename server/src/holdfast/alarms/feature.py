"""What alarms contribute to the service."""

from holdfast.alarms.evaluate import ROUNDS, Rounds
from holdfast.alarms.routes import routes
from holdfast.api.dependencies import DATABASE
from holdfast.operations.manifest import Feature, Task, Tick, When
from holdfast.repositories.overdue import OVERDUE_RULES

LOOK_SECONDS = 10.0
"""How often each process checks whether the current minute has had its round. The round itself runs only once."""

FEATURE = Feature(
    name="alarms",
    routers=(routes,),
    provides=(ROUNDS.made_by(lambda parts: Rounds(parts[DATABASE], parts[OVERDUE_RULES])),),
    ticks=lambda parts: (Tick("alarms", LOOK_SECONDS, parts[ROUNDS].run_if_due, "runner"),),
    tasks=lambda parts: (Task(When.TIDY, parts[ROUNDS].tidy),),
)
