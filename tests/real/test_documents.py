"""Runs the commands that the documents print for users to type."""

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import httpx2
import pytest

from tests.support.programs import all_programs_but
from tests.support.service import PATIENCE, PROGRAM, Client, end_with_parent, free_port, wait_until
from tools.play_documents import NOT_PLAYED, Played, blocks_of, commands_of, complaint_about, without_a_reason

ROOT = Path(__file__).resolve().parents[2]
DOCUMENTS = sorted([ROOT / "README.md", *(ROOT / "docs").glob("*.md")])
PLAYED = ("README.md", "docs/api.md", "docs/restore.md")
"""In this order: the later documents use the backup that the first one creates."""


def name_of(document: Path) -> str:
    return str(document.relative_to(ROOT))


def test_every_shell_block_is_played_or_has_a_reason_to_be_left_out() -> None:
    blocks = [block for document in DOCUMENTS for block in blocks_of(document, name_of(document))]

    assert without_a_reason(blocks) == [], "name it in NOT_PLAYED of tools/play_documents.py"
    assert {block.file for block in blocks if block.is_played} == set(PLAYED)


def test_no_reason_is_out_of_date() -> None:
    examples = [
        block for document in DOCUMENTS for block in blocks_of(document, name_of(document)) if not block.is_played
    ]

    unused = [
        (file, start)
        for file, start in NOT_PLAYED
        if not any(block.file == file and block.first_line.startswith(start) for block in examples)
    ]
    assert unused == []


@pytest.fixture
def programs(tmp_path: Path) -> Path:
    """The programs of a machine without engines."""
    folder = all_programs_but(tmp_path / "programs", "borg")
    assert shutil.which("borg", path=str(folder)) is None
    return folder


@pytest.fixture
def service(tmp_path: Path, programs: Path) -> Iterator[tuple[dict[str, str], int]]:
    """Start the service as `make run` does, in its own folder; return a user's environment and the port."""
    port = free_port()
    environment = {
        **{name: value for name, value in os.environ.items() if not name.startswith("HOLDFAST_")},
        "HOME": str(tmp_path / "home"),
        "PATH": str(programs),
    }
    for name in ("XDG_CONFIG_HOME", "BORG_BASE_DIR"):
        environment.pop(name, None)
    (tmp_path / "home").mkdir()
    (tmp_path / ".venv").symlink_to(PROGRAM.parent.parent)
    command = [ROOT / "tools" / "with-engine", PROGRAM, "serve", "--port", str(port)]
    with (tmp_path / "service.log").open("wb") as log:
        process = subprocess.Popen(
            command, cwd=tmp_path, env=environment, stdout=log, stderr=log, preexec_fn=end_with_parent
        )
        try:
            client = Client(base_url=f"http://127.0.0.1:{port}")
            wait_until(lambda: is_ready(client, process), what="the service is ready")
            yield environment, port
        finally:
            process.terminate()
            process.wait(PATIENCE)


def is_ready(client: Client, process: "subprocess.Popen[bytes]") -> bool:
    assert process.poll() is None, f"the service ended with {process.returncode}"
    try:
        return client.get("/health/ready").status_code == 200
    except httpx2.TransportError:
        return False


@pytest.mark.slow
def test_the_tour_and_the_other_documents_do_what_they_promise(
    tmp_path: Path, service: tuple[dict[str, str], int]
) -> None:
    environment, port = service
    for name in ("README.md", "docs"):
        (tmp_path / name).symlink_to(ROOT / name)

    played = subprocess.run(
        [sys.executable, ROOT / "tools" / "play_documents.py", "--server", f"http://127.0.0.1:{port}", *PLAYED],
        cwd=tmp_path,
        env=environment,
        capture_output=True,
        text=True,
        timeout=3 * PATIENCE,
        check=False,
    )

    assert played.returncode == 0, f"{played.stdout[-6000:]}\n{played.stderr}"
    assert "Dear Anna" in next((tmp_path / "home" / "restored").rglob("anna.txt")).read_text()
    assert (tmp_path / "anna.txt").read_text() == "Dear Anna\n", "downloaded"


@pytest.mark.parametrize(
    ("output", "code"),
    [("null", 0), ("jq: error (at <stdin>:1): Cannot index", 0), ("fine", 5), ("parse error: Invalid", 0)],
)
def test_a_command_with_a_bad_result_is_noticed(output: str, code: int) -> None:
    assert complaint_about(Played("a line", code, output)) is not None


def test_a_command_that_spans_lines_is_one_command() -> None:
    text = "# a remark\na=1\ncurl -d '{\n}' \\\n  address | jq\nfor i in 1 2; do\n  echo $i\ndone\n"

    assert commands_of(text) == ["a=1", "curl -d '{\n}' \\\n  address | jq", "for i in 1 2; do\n  echo $i\ndone"]
