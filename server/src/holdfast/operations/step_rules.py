"""A kind's rules as a step of a schedule, for kinds that the table of steps does not fully describe."""

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Protocol

from sqlalchemy.orm import Session

from backup_engine.frozen import frozen
from holdfast.access.caller import Caller
from holdfast.api.parts import Part

if TYPE_CHECKING:
    from holdfast.operations.queue import Subject

Step = Mapping[str, Any]


class StepRules(Protocol):
    def stored(
        self, session: Session, caller: Caller, steps: Sequence[Step], previous: Sequence[Step]
    ) -> list[dict[str, Any]]:
        """Given all steps of the kind that a caller wants, return them in the same order as the schedule stores them;
        `previous` are those that it stores so far.

        Raise NotFound, Forbidden or Unprocessable.
        """

    def params(self, session: Session, step: Step) -> dict[str, Any]:
        """Given a stored step, return the parameters of a new operation. Raise NotFound or Unprocessable."""

    def subject(self, params: Mapping[str, Any], subject: "Subject") -> "Subject":
        """Given the parameters of an operation and its repository, return the subject with the executor to use."""


@frozen
class ScriptUse:
    """A step of a schedule that runs a script."""

    schedule_id: int
    schedule_name: str
    step: dict[str, Any]

    def shown(self) -> dict[str, Any]:
        return {"id": self.schedule_id, "name": self.schedule_name}


FindScriptUses = Callable[[Session], Sequence[ScriptUse]]
SCRIPT_USES = Part[FindScriptUses]("script_uses")
"""How the script library finds the steps that use its scripts."""
