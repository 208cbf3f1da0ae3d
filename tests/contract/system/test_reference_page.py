"""/api/docs shows the API without loading anything from other servers."""

import re

from tests.support.running import Running


def test_the_page_loads_everything_from_the_service_itself(running: Running) -> None:
    page = running.anonymous().get("/api/docs")
    assert page.status_code == 200
    addresses = re.findall(r'(?:src|href)="([^"]+)"', page.text)
    assert len(addresses) == 4
    for address in addresses:
        assert address.startswith("/api/docs/")
        answer = running.anonymous().get(address)
        assert (answer.status_code, len(answer.content) > 100) == (200, True), address


def test_the_page_forbids_inline_scripts_and_content_from_elsewhere(running: Running) -> None:
    policy = running.anonymous().get("/api/docs").headers["Content-Security-Policy"]
    assert "default-src 'none'" in policy
    assert "script-src 'self';" in policy
    assert "frame-ancestors 'none'" in policy
    assert "<script>" not in running.anonymous().get("/api/docs").text


def test_no_other_file_of_the_page_is_served(running: Running) -> None:
    for name in ("__init__.py", "..%2f__init__.py", "swagger-ui-bundle.js.map"):
        assert running.anonymous().get(f"/api/docs/{name}").status_code == 404
