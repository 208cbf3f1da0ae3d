"""The access routes in their own application, as in the contract tests."""

from tests.contract.access.conftest import cheap_hashes, database, service, settings

__all__ = ["cheap_hashes", "database", "service", "settings"]
