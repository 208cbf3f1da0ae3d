"""Which of the service's scripts a machine runs: only its owner decides."""

from pathlib import Path

import pytest

from backup_agent.job_payload import open_repository
from backup_agent.script_rule import Refused, ScriptRule
from backup_engine.requests import InvalidRequest
from backup_protocol import SCHEMA_VERSION, JobKind, Payload, RepositoryBlock, ScriptBlock, SecretMissing


def block(**more: object) -> ScriptBlock:
    return ScriptBlock(**{"name": "dump", "content": "true\n", "interpreter": ("/bin/sh",), **more})  # type: ignore[arg-type]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    scripts = tmp_path / "scripts"
    scripts.mkdir(mode=0o755)
    (scripts / "dump").write_text("#!/bin/sh\ntrue\n")
    (scripts / "dump").chmod(0o755)
    return scripts


def test_no_script_runs_by_default() -> None:
    for wanted in (block(), block(installed_as="dump")):
        with pytest.raises(Refused, match=r"config\.toml"):
            ScriptRule().require(wanted)


def test_a_machine_limited_to_installed_scripts_runs_only_those(folder: Path) -> None:
    rule = ScriptRule("installed", folder)

    assert rule.require(block(installed_as="dump")) == folder / "dump"
    with pytest.raises(Refused, match="installed"):
        rule.require(block())


def test_a_machine_that_allows_any_script_runs_content_from_the_service(folder: Path) -> None:
    assert ScriptRule("any", folder).require(block()) is None
    assert ScriptRule("any", folder).require(block(installed_as="dump")) == folder / "dump"


@pytest.mark.parametrize("name", ["../dump", "/bin/sh", "", ".hidden", "a/b", "du\nmp", "none"])
def test_names_that_are_not_files_in_the_folder_are_refused(folder: Path, name: str) -> None:
    with pytest.raises(Refused):
        ScriptRule("installed", folder).require(block(installed_as=name))


@pytest.mark.parametrize("mode", [0o775, 0o757, 0o644])
def test_a_file_that_others_can_change_or_that_is_not_executable_is_refused(folder: Path, mode: int) -> None:
    (folder / "dump").chmod(mode)

    with pytest.raises(Refused):
        ScriptRule("installed", folder).require(block(installed_as="dump"))


def test_links_and_folders_that_others_can_write_to_are_refused(folder: Path) -> None:
    (folder / "link").symlink_to(folder / "dump")
    with pytest.raises(Refused):
        ScriptRule("installed", folder).require(block(installed_as="link"))
    folder.chmod(0o777)
    with pytest.raises(Refused):
        ScriptRule("installed", folder).require(block(installed_as="dump"))


@pytest.mark.parametrize("name", ["LD_PRELOAD", "PATH", "BASH_ENV", "HOLDFAST_x", "HOLDFAST_A=B"])
def test_the_service_may_set_only_its_own_variables(folder: Path, name: str) -> None:
    with pytest.raises(Refused):
        ScriptRule("installed", folder).require(block(installed_as="dump", variables={name: "x"}))


def payload(environment: dict[str, object], **secrets: dict[str, str]) -> Payload:
    repository = RepositoryBlock(1, 1, "/srv/repository")
    return Payload(SCHEMA_VERSION, JobKind.SCRIPT_RUN, repository, block(environment=environment), dict(secrets))


def test_secret_parameters_come_with_the_job_and_never_from_the_machines_own_secrets() -> None:
    given = payload({"HOLDFAST_PARAM_A": {"secret_ref": "one"}}, one={"value": "hush"})
    assert open_repository(given, lambda _: None).environment.secrets["HOLDFAST_PARAM_A"].value == "hush"
    with pytest.raises(SecretMissing):
        open_repository(payload({"HOLDFAST_PARAM_A": {"secret_ref": "repository-1"}}), lambda _: "passphrase")
    with pytest.raises(InvalidRequest):
        open_repository(payload({"LD_PRELOAD": {"secret_ref": "one"}}, one={"value": "x"}), lambda _: None)
