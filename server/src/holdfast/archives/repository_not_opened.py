"""The exception that ends the reading of a whole repository."""

from backup_engine.outcome import Outcome


class RepositoryNotOpened(Exception):
    """The engine cannot open the repository; the cause is not a single archive."""

    def __init__(self, outcome: Outcome) -> None:
        super().__init__(outcome.message)
        self.outcome = outcome
