"""Unit file for systemd, of the system or of a user."""

from pathlib import Path

from backup_agent.install.units import Installation, program
from backup_agent.places import CONFIG_VARIABLE, NAME, STATE_VARIABLE, Places

UNIT = f"{NAME}.service"
TEMPLATE = """\
[Unit]
Description=Backup agent: runs the backup service's jobs on this machine
After=network-online.target
Wants=network-online.target

[Service]
Type=exec
ExecStart={program} run
Environment="{config_variable}={config}" "{state_variable}={state}"
Restart=always
RestartSec=10
# Only the agent is stopped: a running engine continues, and the next start finds it again.
KillMode=process
TimeoutStopSec=20
UMask=0077
NoNewPrivileges=true

[Install]
WantedBy={target}
"""


def installation(places: Places, *, is_root: bool) -> Installation:
    folder = Path("/etc/systemd/system") if is_root else Path.home() / ".config" / "systemd" / "user"
    control = ("systemctl",) if is_root else ("systemctl", "--user")
    content = TEMPLATE.format(
        program=program(),
        config_variable=CONFIG_VARIABLE,
        config=_escaped(places.config),
        state_variable=STATE_VARIABLE,
        state=_escaped(places.state),
        target="multi-user.target" if is_root else "default.target",
    )
    return Installation(
        unit=folder / UNIT,
        content=content,
        starting=((*control, "daemon-reload"), (*control, "enable", UNIT), (*control, "restart", UNIT)),
        removing=((*control, "disable", "--now", UNIT),),
        forgetting=((*control, "daemon-reload"),),
    )


def _escaped(path: Path) -> str:
    """Escape a path for use inside double quotes in a unit, where % and \\ are special."""
    return str(path).replace("\\", "\\\\").replace('"', '\\"').replace("%", "%%")
