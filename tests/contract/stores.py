"""The stores on which a test runs. Most of the contract does not depend on the store, so one is enough."""

import pytest

both_stores = pytest.mark.parametrize("running", ["sqlite", "postgresql"], indirect=True)
