"""rclone's own log output, and the progress, lines and errors that are read from it."""

import json

import pytest

from backup_engine.rclone import OTHER, trouble_of
from backup_engine.redact import Redactor
from holdfast.mirror.rclone_log import Progress, RcloneLog

STATS = {
    "level": "warning",
    "msg": "\nTransferred: …\n",
    "stats": {
        "bytes": 4124672,
        "totalBytes": 30000000,
        "speed": 2092084.9671308459,
        "eta": 12,
        "transfers": 3,
        "deletes": 1,
        "checks": 7,
        "errors": 0,
    },
}


def line(level: str, message: str, subject: str = "") -> bytes:
    return json.dumps({"level": level, "msg": message, "object": subject}).encode()


def test_statistics_become_progress_and_not_log_lines() -> None:
    heard: list[Progress] = []
    words = RcloneLog(Redactor(()), heard.append)

    logged = words.on_line(json.dumps(STATS).encode())

    assert logged == []
    assert heard == [words.progress]
    assert (words.progress.bytes, words.progress.total_bytes, words.progress.eta_seconds) == (4124672, 30000000, 12)
    assert (words.progress.transfers, words.progress.deletes, words.progress.checks) == (3, 1, 7)


def test_file_actions_are_logged_and_complaints_are_kept() -> None:
    words = RcloneLog(Redactor(()))

    logged = [
        *words.on_line(line("info", "Copied (new)", "data/0/1")),
        *words.on_line(line("error", "sizes differ", "data/0/401")),
        *words.on_line(b"2026/11/15 17:26:59 Failed to check: 1 differences found"),
        *words.on_line(b""),
    ]

    assert logged[:2] == ["data/0/1: Copied (new)", "data/0/401: sizes differ"]
    assert words.complaints == logged[1:]
    assert words.reasons[0] == "sizes differ"


def test_a_remote_without_hashes_is_recorded_and_is_not_a_complaint() -> None:
    words = RcloneLog(Redactor(()))
    words.on_line(line("error", "No common hash found - not using a hash for checks"))

    assert (words.complaints, words.compared_hashes) == ([], False)


def test_secrets_are_redacted_from_everything_that_is_kept() -> None:
    words = RcloneLog(Redactor(("obscured-secret",)))
    logged = words.on_line(line("error", "bad password obscured-secret", "obscured-secret/file"))

    assert "obscured-secret" not in f"{logged} {words.complaints} {words.reasons}"


@pytest.mark.parametrize(
    ("said", "key"),
    [
        ("couldn't list files: Unauthorized: 401 Unauthorized", "rclone.credentials_refused"),
        (
            "NewFs: couldn't connect SSH: ssh: handshake failed: ssh: unable to authenticate",
            "rclone.credentials_refused",
        ),
        ("AccessDenied: Access Denied status code: 403, request id: X", "rclone.credentials_refused"),
        ("googleapi: Error 403: The user's quota is gone, quotaExceeded", "rclone.credentials_refused"),
        ('Propfind "http://127.0.0.1:1/": dial tcp 127.0.0.1:1: connect: connection refused', "rclone.unreachable"),
        ("dial tcp: lookup nosuch.invalid on 10.0.0.53:53: no such host", "rclone.unreachable"),
        ("Failed to create file system: NewFs: couldn't connect SSH: dial tcp: i/o timeout", "rclone.unreachable"),
        ("write /srv/x: no space left on device", "rclone.storage_full"),
        ("Insufficient Storage: 507 Insufficient Storage", "rclone.storage_full"),
        ("mkdir /srv: permission denied", "rclone.permission_denied"),
        ("couldn't decrypt password: base64 decode failed - is it obscured?", "rclone.configuration_refused"),
        ('Propfind "/": unsupported protocol scheme ""', "rclone.configuration_refused"),
        ("error in ListJSON: directory not found", "rclone.not_found"),
        ("something new under the sun", "rclone.failed"),
    ],
)
def test_each_kind_of_error_has_its_own_key(said: str, key: str) -> None:
    assert trouble_of([said]).key == key


def test_a_segment_number_that_looks_like_an_http_status_is_not_an_error_of_the_remote() -> None:
    words = RcloneLog(Redactor(()))
    words.on_line(line("error", "sizes differ", "data/0/401"))
    words.on_line(line("error", "sizes differ", "data/0/507"))

    assert trouble_of(words.reasons) is OTHER
