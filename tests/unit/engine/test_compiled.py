"""Programs that run from their compiled form behave as if Python ran the file."""

import os
import subprocess
import sys
from importlib.util import cache_from_source
from pathlib import Path

from backup_engine.compiled import run_compiled

SHOWN = "import sys\nprint(__name__, __file__, sys.argv, len(sys.path), sys.flags.isolated)\nsys.exit({code})\n"


def ran(*command: str) -> tuple[int, str]:
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    return done.returncode, done.stdout


def test_a_program_sees_the_same_and_ends_the_same_as_when_its_file_is_run(tmp_path: Path) -> None:
    file = tmp_path / "program.py"
    file.write_text(SHOWN.format(code=3))
    usual = ran(sys.executable, "-I", "-S", str(file), "two words", "-c")

    assert usual[0] == 3
    assert usual[1].startswith(f"__main__ {file} ['{file}', 'two words', '-c']")
    for _ in ("compiled now", "compiled before"):
        assert ran(*run_compiled(str(file)), "two words", "-c") == usual
    assert Path(cache_from_source(str(file))).exists()


def test_a_program_that_has_changed_is_compiled_again(tmp_path: Path) -> None:
    file = tmp_path / "program.py"
    file.write_text("print('before')\n")
    os.utime(file, (1, 1))
    assert ran(*run_compiled(str(file))) == (0, "before\n")
    file.write_text("print('changed')\n")

    assert ran(*run_compiled(str(file))) == (0, "changed\n")


def test_a_program_runs_although_its_compiled_form_is_damaged_or_cannot_be_kept(tmp_path: Path) -> None:
    file = tmp_path / "program.py"
    file.write_text("print('runs')\n")
    kept = Path(cache_from_source(str(file)))
    kept.parent.write_text("not a folder")
    assert ran(*run_compiled(str(file))) == (0, "runs\n")
    kept.parent.unlink()
    kept.parent.mkdir()
    kept.write_bytes(b"")
    assert ran(*run_compiled(str(file))) == (0, "runs\n")
    whole = kept.read_bytes()
    for length in (10, 20, len(whole) - 1):
        kept.write_bytes(whole[:length])
        assert ran(*run_compiled(str(file))) == (0, "runs\n")
