"""What a machine needs to become managed: wheels, script, units."""

import plistlib
import re
import subprocess
import sys
import zipfile
from io import BytesIO
from pathlib import Path

from backup_agent import AGENT_VERSION
from backup_agent.install import delivery, launchd, systemd
from backup_agent.places import Places

PLACES = Places(Path("/etc/backup-agent"), Path("/var/lib/100% backup"))


def test_the_wheels_contain_everything_the_agent_needs(tmp_path: Path) -> None:
    for content in delivery.wheel_files().values():
        zipfile.ZipFile(BytesIO(content)).extractall(tmp_path)

    # -S leaves out the packages that are installed here.
    ran = subprocess.run(
        [sys.executable, "-S", "-m", "backup_agent", "--version"],
        env={"PYTHONPATH": str(tmp_path), "PYTHONDONTWRITEBYTECODE": "1"},
        capture_output=True,
        text=True,
        check=False,
    )

    assert ran.stdout == f"backup-agent {AGENT_VERSION}\n", ran.stderr


def test_a_wheel_records_every_file_with_its_hash() -> None:
    for content in delivery.wheel_files().values():
        with zipfile.ZipFile(BytesIO(content)) as wheel:
            [record] = [name for name in wheel.namelist() if name.endswith(".dist-info/RECORD")]
            recorded = {line.split(",")[0] for line in wheel.read(record).decode().splitlines()}
            assert recorded == set(wheel.namelist())


def test_the_index_lists_each_wheel_with_its_checksum() -> None:
    lines = delivery.wheel_index().decode().splitlines()

    assert [line.split("  ")[1] for line in lines] == list(delivery.wheel_files())
    assert all(re.fullmatch(r"[0-9a-f]{64}  backup_\w+-[\d.]+-py3-none-any\.whl", line) for line in lines)


def test_the_script_is_valid_in_a_plain_shell_and_reports_missing_options() -> None:
    script = delivery.install_script()
    checked = subprocess.run(["sh", "-n"], input=script, capture_output=True, check=False)
    assert checked.returncode == 0, checked.stderr

    ran = subprocess.run(["sh"], input=script, env={"PATH": "/usr/bin:/bin"}, capture_output=True, check=False)

    assert ran.returncode == 1
    assert b"--server" in ran.stderr


def test_the_unit_leaves_engines_alive_when_the_agent_is_stopped() -> None:
    unit = systemd.installation(PLACES, is_root=True)

    assert unit.unit == Path("/etc/systemd/system/backup-agent.service")
    assert "\nKillMode=process\n" in unit.content
    assert "\nRestart=always\n" in unit.content
    assert '"BACKUP_AGENT_STATE_DIR=/var/lib/100%% backup"' in unit.content
    assert ("systemctl", "enable", "backup-agent.service") in unit.starting
    assert ("systemctl", "--user", "daemon-reload") in systemd.installation(PLACES, is_root=False).starting


def test_the_property_list_is_valid_for_launchd() -> None:
    content = plistlib.loads(launchd.installation(PLACES, is_root=True).content.encode())

    assert content["ProgramArguments"][1:] == ["run"]
    assert content["AbandonProcessGroup"] is True
    assert content["EnvironmentVariables"]["BACKUP_AGENT_CONFIG_DIR"] == "/etc/backup-agent"
