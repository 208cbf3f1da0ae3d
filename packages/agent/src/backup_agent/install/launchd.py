"""Property list for launchd: as a daemon, or as a launch agent of the user."""

import os
from pathlib import Path
from xml.sax.saxutils import escape

from backup_agent.install.units import Installation, program
from backup_agent.places import CONFIG_VARIABLE, STATE_VARIABLE, Places

LABEL = "org.holdfast.backup-agent"
TEMPLATE = """\
<?xml version="1.0" encoding="UTF-8"?>
<!DOCTYPE plist PUBLIC "-//Apple//DTD PLIST 1.0//EN" "http://www.apple.com/DTDs/PropertyList-1.0.dtd">
<plist version="1.0">
<dict>
    <key>Label</key>
    <string>{label}</string>
    <key>ProgramArguments</key>
    <array>
        <string>{program}</string>
        <string>run</string>
    </array>
    <key>EnvironmentVariables</key>
    <dict>
        <key>PATH</key>
        <string>/opt/homebrew/bin:/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin</string>
        <key>{config_variable}</key>
        <string>{config}</string>
        <key>{state_variable}</key>
        <string>{state}</string>
    </dict>
    <key>RunAtLoad</key>
    <true/>
    <key>KeepAlive</key>
    <true/>
    <key>AbandonProcessGroup</key>
    <true/>
    <key>Umask</key>
    <integer>63</integer>
    <key>StandardErrorPath</key>
    <string>{log}</string>
</dict>
</plist>
"""


def installation(places: Places, *, is_root: bool) -> Installation:
    folder = Path("/Library/LaunchDaemons") if is_root else Path.home() / "Library" / "LaunchAgents"
    domain = "system" if is_root else f"gui/{os.getuid()}"
    unit = folder / f"{LABEL}.plist"
    content = TEMPLATE.format(
        label=LABEL,
        program=escape(program()),
        config_variable=CONFIG_VARIABLE,
        config=escape(str(places.config)),
        state_variable=STATE_VARIABLE,
        state=escape(str(places.state)),
        log=escape(str(places.state / "agent.log")),
    )
    return Installation(
        unit=unit,
        content=content,
        starting=(("launchctl", "bootstrap", domain, str(unit)), ("launchctl", "kickstart", f"{domain}/{LABEL}")),
        removing=(("launchctl", "bootout", f"{domain}/{LABEL}"),),
    )
