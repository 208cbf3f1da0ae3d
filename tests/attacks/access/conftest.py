"""The access routes in an application of their own, as the contract tests have them."""

from tests.contract.access.conftest import cheap_hashes, database, service, settings

__all__ = ["cheap_hashes", "database", "service", "settings"]
