from tests.contract.fields import error_of
from tests.support.engines import ENGINE_2
from tests.support.running import Running
from tests.support.service import Client


def test_the_info_shows_version_plan_features_engines_and_store(running: Running, admin: Client) -> None:
    info = admin.get("/api/system/info").json()

    assert set(info) >= {"version", "plan", "features", "engines", "store"}
    assert info["version"].count(".") == 2
    assert info["plan"] == "pro", "the owner of the machine decides; pro unless told otherwise"
    assert info["features"]["archive_history"] == "pro"
    assert info["store"] == ("postgresql" if running.process.database_url else "sqlite")
    told = [(engine["major"], engine["version"][:3]) for engine in info["engines"]]
    assert told == [(1, running.engine), *([(2, "2.0")] if ENGINE_2 else [])]


def test_only_signed_in_users_may_read_the_info(running: Running) -> None:
    assert error_of(running.anonymous().get("/api/system/info")) == (401, "auth.credential_missing")
    assert running.stranger.get("/api/system/info").status_code == 200
