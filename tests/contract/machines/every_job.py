"""Every job of a repository in turn, wherever its engine runs."""

from pathlib import Path
from typing import Any

from tests.support.running import Running
from tests.support.service import Client, wait_until

NAMES = ("first", "second")


def done(admin: Client, answer: Any) -> dict[str, Any]:
    assert answer.status_code == 200, answer.text
    told = answer.json()
    ended = admin.wait_for_end(told.get("job_id") or told["id"])
    assert ended["status"] == "completed", (ended["error_key"], ended["error_message"])
    return ended


def live(admin: Client, place: str) -> list[str]:
    answer = admin.get(f"{place}/archives/live")
    assert answer.status_code == 200, answer.text
    return [archive["name"] for archive in answer.json()["archives"]]


def back_up(running: Running, repository: dict[str, Any]) -> dict[str, int]:
    """Back up twice, wait for the index, and return the ids of the archives by name."""
    admin, place = running.admin, f"/api/repositories/{repository['id']}"
    for name in NAMES:
        ended = admin.wait_for_end(admin.start_backup(repository, archive_name=name))
        assert ended["status"] == "completed", (ended["error_key"], ended["error_message"])

    def indexed() -> list[dict[str, Any]] | None:
        found: list[dict[str, Any]] = admin.get(f"{place}/archives").json()["archives"]
        whole = len(found) == len(NAMES) and all(archive["history_state"] == "indexed" for archive in found)
        return found if whole else None

    archives = wait_until(indexed, what="all archives are in the index")
    return {archive["name"]: archive["id"] for archive in archives}


def read(running: Running, repository: dict[str, Any], archives: dict[str, int]) -> None:
    """Reads: history, download, key and live list."""
    admin, place, source = running.admin, f"/api/repositories/{repository['id']}", repository["source_paths"][0]
    history = admin.get(f"{place}/history", params={"path": f"{source}/file-0"}).json()
    assert history["present_in_latest"] is True
    download = admin.get(f"{place}/archives/{archives['first']}/files", params={"path": f"{source}/file-2"})
    assert download.text == (Path(source) / "file-2").read_text()
    assert "BORG_KEY" in admin.get(f"{place}/key").json()["key"]
    assert sorted(live(admin, place)) == sorted(NAMES)


def maintain(running: Running, repository: dict[str, Any], archives: dict[str, int]) -> None:
    """Check, restore check, prune, delete, compact, wipe, break the lock: the repository ends without archives."""
    admin, place = running.admin, f"/api/repositories/{repository['id']}"
    done(admin, admin.post(f"{place}/check", json={}))
    done(admin, admin.post(f"{place}/restore-check", json={}))
    done(admin, admin.post(f"{place}/prune", json={"keep_last": 9}))
    done(admin, admin.delete(f"/api/archives/{archives['first']}"))
    done(admin, admin.post(f"{place}/compact", json={}))
    assert live(admin, place) == ["second"]
    running.wait_until_idle()
    seen = admin.post(f"{place}/wipe-preview", json={}).json()
    confirmation = {
        "preview_id": seen["id"],
        "preview_fingerprint": seen["archive_fingerprint"],
        "confirmation_phrase": f"WIPE {seen['repository_name']}",
        "understood": True,
    }
    done(admin, admin.post(f"{place}/wipe", json=confirmation))
    assert live(admin, place) == []
    running.wait_until_idle()
    assert admin.post(f"{place}/break-lock").status_code == 200
