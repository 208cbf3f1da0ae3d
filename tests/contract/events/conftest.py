import pytest

from tests.support.running import Running, Services


@pytest.fixture
def running(request: pytest.FixtureRequest, services: Services) -> Running:
    """The service on SQLite, unless the test requests both stores."""
    return services.get(getattr(request, "param", "sqlite"))
