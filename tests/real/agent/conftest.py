"""One service, one managed machine and one repository, shared by the tests of a module."""

from collections.abc import Iterator

import pytest

from tests.support.agent_site import AgentSite


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[AgentSite]:
    built = AgentSite.build(tmp_path_factory.mktemp("site"))
    yield built
    built.end()
