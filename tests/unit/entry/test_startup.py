"""The service refuses to start with one sentence and the documented exit code, and creates nothing."""

import os
import socket
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from typer.testing import CliRunner

from holdfast.entry import greeting, startup
from holdfast.entry.main import cli
from holdfast.entry.serve import hold_data_dir, start
from holdfast.settings import Settings
from holdfast.storage.migrate import migrate
from holdfast.storage.session import Database
from tests.support.service import free_port

NOBODY = 65534


class NoStop:
    """A placeholder: a refused start never checks for a request to stop."""


@pytest.fixture(autouse=True)
def plain_environment(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for name in [name for name in os.environ if name.startswith("HOLDFAST_")]:
        monkeypatch.delenv(name)
    monkeypatch.chdir(tmp_path)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "data of mine"


def refused(folder: Path, **settings: object) -> startup.CannotStart:
    values = {"port": 0, "data_dir": folder, **settings}
    with pytest.raises(startup.CannotStart) as found:
        start(Settings(**values), NoStop())  # type: ignore[arg-type]
    sentence = str(found.value)
    assert sentence.endswith(".")
    assert len(sentence.splitlines()) == 1
    return found.value


@pytest.fixture
def taken_port() -> Iterator[int]:
    with socket.create_server(("127.0.0.1", 0)) as listening:
        yield listening.getsockname()[1]


# --- settings -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("option", "value", "said"),
    [
        ("--port", "99999", "99999"),
        ("--port", "-1", "-1"),
        ("--port", "eighty", "eighty"),
        ("--role", "boss", "'all', 'api' or 'runner'"),
    ],
)
def test_an_invalid_option_is_reported_in_one_sentence_and_nothing_is_created(
    tmp_path: Path, option: str, value: str, said: str
) -> None:
    result = CliRunner().invoke(cli, ["serve", "--data-dir", "made", f"{option}={value}"])

    assert result.exit_code == 78
    assert len(result.stderr.splitlines()) == 1
    assert said in result.stderr
    assert option.strip("-") in result.stderr
    assert list(tmp_path.iterdir()) == []


def test_a_settings_file_that_is_not_toml_is_reported_in_one_sentence(tmp_path: Path) -> None:
    (tmp_path / "holdfast.toml").write_text("port: 80\n")

    result = CliRunner().invoke(cli, ["serve"])

    assert result.exit_code == 78
    assert len(result.stderr.splitlines()) == 1
    assert "holdfast.toml" in result.stderr


def test_an_invalid_secret_key_is_refused_without_being_shown(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOLDFAST_SECRET_KEY", "hunter2")

    reason = refused(tmp_path / "data")

    assert reason.code == 78
    assert "HOLDFAST_SECRET_KEY" in str(reason)
    assert "hunter2" not in str(reason)
    assert list(tmp_path.iterdir()) == []


def test_a_split_role_without_postgresql_is_refused(folder: Path) -> None:
    reason = refused(folder, role="runner")

    assert (reason.code, folder.exists()) == (78, False)
    assert "HOLDFAST_DATABASE_URL" in str(reason)


# --- the address ----------------------------------------------------------------------------------------------------


def test_a_port_in_use_is_refused_before_anything_is_created(folder: Path, taken_port: int) -> None:
    reason = refused(folder, port=taken_port)

    assert (reason.code, folder.exists()) == (75, False)
    assert f"127.0.0.1:{taken_port}" in str(reason)


@pytest.mark.parametrize("host", ["203.0.113.5", "no.such.host.invalid"])
def test_a_host_that_is_not_of_this_machine_is_refused_before_anything_is_created(folder: Path, host: str) -> None:
    reason = refused(folder, host=host)

    assert (reason.code, folder.exists()) == (78, False)
    assert host in str(reason)


# --- the data folder ------------------------------------------------------------------------------------------------


def test_a_data_folder_that_is_a_file_is_refused(folder: Path) -> None:
    folder.write_text("not a folder")

    reason = refused(folder)

    assert (reason.code, folder.read_text()) == (78, "not a folder")
    assert str(folder) in str(reason)


def test_a_data_folder_below_a_file_is_refused(folder: Path) -> None:
    folder.write_text("not a folder")

    assert refused(folder / "data").code == 78


@pytest.mark.parametrize("place", ["/proc/holdfast", "/sys/holdfast"])
def test_a_data_folder_that_cannot_be_created_is_refused(place: str) -> None:
    assert refused(Path(place)).code == 78


def test_a_data_folder_that_the_user_cannot_write_to_is_refused() -> None:
    with not_root(), pytest.raises(startup.CannotStart) as found:
        startup.check_data_dir(Path("/usr/data of mine"))

    assert "/usr cannot be written to by this user" in str(found.value)


@contextmanager
def not_root() -> Iterator[None]:
    if os.getuid() != 0:
        yield
        return
    os.seteuid(NOBODY)
    try:
        yield
    finally:
        os.seteuid(0)


def test_a_data_folder_in_use_is_refused(folder: Path) -> None:
    folder.mkdir()
    assert hold_data_dir(folder)

    reason = refused(folder)

    assert reason.code == 75
    assert str(folder) in str(reason)


# --- the store ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("url", ["nonsense", "mysql://host/name", "postgresql://user@host/name"])
def test_a_url_of_an_unsupported_database_is_refused(folder: Path, url: str) -> None:
    reason = refused(folder, database_url=url)

    assert (reason.code, folder.exists()) == (78, False)
    assert "postgresql+psycopg://" in str(reason)


def test_an_unreachable_postgresql_server_is_refused_without_showing_the_password(folder: Path) -> None:
    url = f"postgresql+psycopg://someone:sesame@127.0.0.1:{free_port()}/name"

    reason = refused(folder, database_url=url)

    assert (reason.code, folder.exists()) == (78, False)
    assert "PostgreSQL" in str(reason)
    assert "sesame" not in str(reason)


def test_a_store_that_is_not_a_database_is_refused_and_left_unchanged(folder: Path) -> None:
    folder.mkdir()
    (folder / "holdfast.db").write_text("these are not the bytes of a database, but somebody wants them\n" * 100)
    before = (folder / "holdfast.db").read_bytes()

    reason = refused(folder)

    assert (reason.code, (folder / "holdfast.db").read_bytes()) == (78, before)
    assert str(folder / "holdfast.db") in str(reason)


def test_a_store_of_a_newer_version_is_refused(folder: Path) -> None:
    folder.mkdir()
    database = Database(Settings(data_dir=folder).store_url)
    migrate(database)
    with database.engine.begin() as connection:
        connection.exec_driver_sql("UPDATE alembic_version SET version_num = '9999'")
    database.dispose()

    reason = refused(folder)

    assert reason.code == 78
    assert "newer version" in str(reason)
    assert not (folder / "initial-admin-password").exists()
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700


# --- the greeting ---------------------------------------------------------------------------------------------------


def test_the_first_line_of_the_greeting_ends_with_the_address() -> None:
    lines = greeting.of_service("127.0.0.1", 8080, None).splitlines()

    assert lines[0] == "Holdfast is listening on http://127.0.0.1:8080"
    assert "HOST=0.0.0.0" in lines[1]


def test_an_ipv6_address_is_shown_as_a_url_that_can_be_opened() -> None:
    assert greeting.of_service("::1", 8080, None).startswith("Holdfast is listening on http://[::1]:8080\n")
