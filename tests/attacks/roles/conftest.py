from tests.contract.conftest import services
from tests.contract.test_every_route import hidden

__all__ = ["hidden", "services"]
