"""One service, one managed machine and one repository, shared by all tests of this folder."""

from collections.abc import Iterator

import pytest

from tests.support.agent_site import AgentSite


@pytest.fixture(scope="package")
def shared_site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[AgentSite]:
    built = AgentSite.build(tmp_path_factory.mktemp("site"), HOLDFAST_AGENT_HEARTBEAT_SECONDS="2")
    yield built
    built.end()


@pytest.fixture
def site(shared_site: AgentSite) -> AgentSite:
    """The site, with everything restarted that an earlier test has taken down."""
    shared_site.bring_up()
    return shared_site
