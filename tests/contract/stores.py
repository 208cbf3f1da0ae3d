"""On which stores a test runs. Most rows of the contract do not depend on the store: one is enough for them."""

import pytest

both_stores = pytest.mark.parametrize("running", ["sqlite", "postgresql"], indirect=True)
