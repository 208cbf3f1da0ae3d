"""The files of the web UI: which are served, with which headers, and which never are."""

import gzip
import re
from pathlib import Path

import pytest
from fastapi import FastAPI
from fastapi.testclient import TestClient

from holdfast.web.built import Built
from holdfast.web.pages import install

PAGE = '<!doctype html><style nonce="__NONCE__"></style><script src="/assets/a-1.js"></script>'


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    built = tmp_path / "static"
    (built / "assets").mkdir(parents=True)
    (built / "index.html").write_text(PAGE)
    (built / "theme.js").write_text("theme")
    (built / "assets" / "a-1.js").write_text("code")
    (built / "assets" / "a-1.js.gz").write_bytes(gzip.compress(b"code"))
    (tmp_path / "secret.key").write_text("secret")
    return built


def client(folder: Path) -> TestClient:
    app = FastAPI()

    @app.get("/api/thing")
    def thing() -> dict[str, str]:
        return {}

    install(app, Built(folder))
    return TestClient(app)


@pytest.mark.parametrize("path", ["/", "/repositories/7", "/files/1?path=etc", "/apiary", "/login"])
def test_every_path_outside_the_api_serves_the_page(folder: Path, path: str) -> None:
    answer = client(folder).get(path)
    assert (answer.status_code, answer.headers["content-type"]) == (200, "text/html; charset=utf-8")
    assert answer.headers["cache-control"] == "no-store"


def test_the_page_may_only_run_its_own_files(folder: Path) -> None:
    one, other = client(folder).get("/"), client(folder).get("/")
    policy = one.headers["content-security-policy"]
    assert policy.startswith("default-src 'none'; script-src 'self';")
    assert "unsafe" not in policy
    nonces = [re.search(r"nonce-([^']+)", answer.headers["content-security-policy"]) for answer in (one, other)]
    assert nonces[0] is not None
    assert nonces[1] is not None
    assert nonces[0][1] != nonces[1][1]
    assert f'nonce="{nonces[0][1]}"' in one.text


@pytest.mark.parametrize("path", ["/api/nowhere", "/api", "/api/", "/health/x", "/agent/x", "/metrics", "/dav/x"])
def test_unknown_paths_of_the_api_return_404_not_the_page(folder: Path, path: str) -> None:
    assert client(folder).get(path).status_code == 404


def test_pages_accept_no_post_requests(folder: Path) -> None:
    assert client(folder).post("/").status_code == 405


def test_files_with_a_hash_in_their_name_are_cached_permanently(folder: Path) -> None:
    answer = client(folder).get("/assets/a-1.js")
    assert (answer.text, answer.headers["content-type"]) == ("code", "text/javascript; charset=utf-8")
    assert "immutable" in answer.headers["cache-control"]
    assert answer.headers["content-encoding"] == "gzip"


def test_a_client_that_does_not_accept_compression_gets_plain_files(folder: Path) -> None:
    answer = client(folder).get("/assets/a-1.js", headers={"Accept-Encoding": "identity"})
    assert (answer.text, "content-encoding" in answer.headers) == ("code", False)


@pytest.mark.parametrize(
    "path", ["/assets/none.js", "/assets/../../secret.key", "/assets/%2e%2e/%2e%2e/secret.key", "/assets//etc/passwd"]
)
def test_no_file_outside_the_build_is_served(folder: Path, path: str) -> None:
    answer = client(folder).get(path)
    assert "secret" not in answer.text
    assert "root:" not in answer.text


def test_without_a_build_the_page_explains_it_and_names_the_api_reference(tmp_path: Path) -> None:
    answer = client(tmp_path / "nothing").get("/")
    assert answer.status_code == 200
    assert "have not been built" in answer.text
    assert "/api/docs" in answer.text


def test_a_new_build_is_served_without_a_restart(folder: Path) -> None:
    served = client(folder)
    assert served.get("/").status_code == 200
    (folder / "assets" / "b-2.js").write_text("newer")
    (folder / "index.html").write_text(PAGE.replace("a-1", "b-2"))
    (folder / "assets" / "a-1.js.gz").unlink()
    assert "b-2" in served.get("/").text
    assert served.get("/assets/b-2.js").text == "newer"
