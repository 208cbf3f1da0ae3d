"""What ends the reading of a whole repository."""

from backup_engine.outcome import Outcome


class EngineRefused(Exception):
    """The engine does not open the repository: no archive is to blame."""

    def __init__(self, outcome: Outcome) -> None:
        super().__init__(outcome.message)
        self.outcome = outcome
