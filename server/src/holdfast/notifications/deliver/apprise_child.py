"""Apprise in a separate process with a deadline: it takes long to load, and its plugins are third-party code.

The process receives the address on its standard input, so that no process list shows it.
"""

import json
import os
import subprocess
import sys
from importlib.util import find_spec
from typing import Any
from urllib.parse import urlsplit

from holdfast.notifications.deliver.result import Result
from holdfast.notifications.events.text import clean, for_chat

SECONDS = 20.0
LOCAL_SCHEMES = frozenset(
    {
        *("dbus", "qt", "kde", "glib", "gnome", "macosx", "windows", "growl", "syslog", "notifico", "file", "enigma2"),
        *("exec", "script", "pipe", "glib", "wayland", "x11", "json", "jsons", "xml", "xmls", "form", "forms"),
    }
)
"""Schemes that act on this machine, or that send plain requests without the checks of webhooks."""


def is_installed() -> bool:
    return find_spec("apprise") is not None


def refused_scheme(url: str) -> str | None:
    """Return the scheme if it is refused or missing."""
    scheme = urlsplit(url).scheme.lower()
    return scheme or "(none)" if not scheme or scheme in LOCAL_SCHEMES else None


def masked(url: str) -> str:
    """Show only the scheme: tokens may be anywhere in the rest."""
    return f"{urlsplit(url).scheme}://****"


def send(options: dict[str, Any], secrets: dict[str, Any], body: dict[str, Any], delivery_uuid: str) -> Result:
    del options, delivery_uuid
    if not is_installed():
        return Result(ok=False, message="Apprise is not installed. Install it with: pip install 'holdfast[apprise]'.")
    asked = {"url": secrets["url"], "title": for_chat(body["subject"]), "body": for_chat(body["text"])}
    environment = {name: os.environ[name] for name in ("PATH", "LANG", "SSL_CERT_FILE") if name in os.environ}
    try:
        ended = subprocess.run(
            [sys.executable, "-I", "-c", CHILD],
            input=json.dumps(asked).encode(),
            capture_output=True,
            timeout=SECONDS,
            env=environment,
            check=False,
        )
    except subprocess.TimeoutExpired:
        return Result(ok=False, message=f"Apprise did not finish within {SECONDS:.0f} seconds.")
    if ended.returncode == 0:
        return Result(ok=True, message="Apprise delivered the message.")
    words = ended.stdout.decode("utf-8", "replace").strip()
    return Result(ok=False, message=clean(words.replace(secrets["url"], masked(secrets["url"]))) or "Apprise failed.")


CHILD = """
import json, logging, sys
asked = json.load(sys.stdin)
import apprise
logging.getLogger("apprise").setLevel(logging.CRITICAL)
target = apprise.Apprise(asset=apprise.AppriseAsset(secure_logging=True, async_mode=False, plugin_paths=[]))
if not target.add(asked["url"]):
    print("Apprise does not support this address.")
    sys.exit(2)
ok = target.notify(title=asked["title"], body=asked["body"], body_format="markdown")
if not ok:
    print("The receiver did not accept the message.")
sys.exit(0 if ok else 1)
"""
