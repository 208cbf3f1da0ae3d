"""An agent behind an nginx that refuses large request bodies."""

import secrets
from pathlib import Path

from tests.support.agent_site import AgentSite
from tests.support.agents import AgentProcess, create_agent_repository
from tests.support.nginx import needs_nginx, nginx
from tests.support.warm_engines import warm_program


@needs_nginx
def test_a_proxy_that_refuses_large_bodies_is_named_as_the_cause(site: AgentSite, tmp_path: Path) -> None:
    source = tmp_path / "source"
    source.mkdir()
    for _ in range(1000):
        (source / secrets.token_hex(16)).touch()
    (tmp_path / "machine").mkdir()
    with nginx(tmp_path / "nginx", site.service.port, "4k") as address:
        agent = AgentProcess(tmp_path / "machine", warm_program(site.engine.engine), address)
        try:
            agent.register(site.admin, "behind a proxy").start()
            repository = create_agent_repository(site.admin, agent, tmp_path / "proxied", [source], index_mode="off")
            backup = site.admin.wait_for_end(site.admin.start_backup(repository))
            assert backup["status"] == "completed", "a backup needs no large bodies"

            queued = site.admin.post(f"/api/repositories/{repository['id']}/rebuild", json={"from": "archives"})
            assert queued.status_code in (200, 202), queued.text
            archives = site.admin.wait_for_end(queued.json()["operations"][0])
            assert archives["status"] == "completed"
            archive = site.admin.get(f"/api/repositories/{repository['id']}/archives").json()["archives"][0]
            refused = site.admin.get(
                f"/api/repositories/{repository['id']}/archives/{archive['id']}/browse",
                params={"path": str(source).lstrip("/")},
            )

            assert refused.json()["detail"]["key"] == "agents.body_refused", refused.text
            assert "client_max_body_size" in refused.json()["detail"]["message"]
            assert "client_max_body_size" in agent.own_log()
        finally:
            agent.end_everything()
