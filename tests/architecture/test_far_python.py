"""Code that runs under the Python of other machines works with the oldest supported version."""

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

from backup_engine import own_places
from backup_engine.chunks import helper, narrowed, selftest_repository
from backup_engine.far import remote_helper, run, unpack
from backup_jobs import folders
from backup_jobs.restore import existing_files
from holdfast.machines import machines
from holdfast.machines.probe import OLDEST_PYTHON
from holdfast.restore import existing_files_there, ssh_restore

NEW_KEYWORDS = {"slots", "kw_only", "strict", "walk_up", "delete_on_close"}
NEW_NAMES = {
    *("StrEnum", "Self", "TypeAlias", "TypeGuard", "ParamSpec", "override", "assert_never", "UTC", "UnionType"),
    *("pairwise", "batched", "aclosing", "ExceptionGroup", "EncodingWarning", "bit_count", "hardlink_to"),
    *("tomllib", "add_note", "aiter", "anext", "file_digest"),
}
MODULES = {
    module.__name__: Path(str(module.__file__)).read_text()
    for module in (
        own_places,
        folders,
        existing_files,
        unpack,
        remote_helper,
        helper,
        narrowed,
        selftest_repository,
        *ssh_restore.SHIPPED_MODULES,
    )
}
SCRIPTS = {
    "ssh_restore": ssh_restore.LOAD + ssh_restore.MAIN,
    "existing_files_there": existing_files_there.MAIN,
    "exclusions": machines.PRINT_EXCLUSIONS,
}
COPIED = {name: text for name, text in run.sources().items() if name.endswith(".py")}


def too_new(text: str) -> Iterator[str]:
    """Each construct of a program that is newer than the oldest supported Python, with its line."""
    try:
        tree = ast.parse(text, feature_version=OLDEST_PYTHON)
    except SyntaxError as error:
        yield f"{error.lineno}: {error.msg}"
        return
    is_lazy = any(isinstance(node, ast.ImportFrom) and node.module == "__future__" for node in tree.body)
    ignored = {id(part) for node in ast.walk(tree) for part in annotations(node)} if is_lazy else set()
    for node in ast.walk(tree):
        if isinstance(node, ast.BinOp) and isinstance(node.op, ast.BitOr) and id(node) not in ignored:
            words = {part.id for part in ast.walk(node) if isinstance(part, ast.Name)}
            if words & {"str", "bytes", "int", "bool", "float", "list", "dict", "tuple"} or "None" in ast.unparse(node):
                yield f"{node.lineno}: {ast.unparse(node)}"
        elif isinstance(node, ast.keyword) and node.arg in NEW_KEYWORDS:
            yield f"{node.value.lineno}: {node.arg}="
        elif isinstance(node, ast.Name | ast.Attribute | ast.alias):
            name = {ast.Name: "id", ast.Attribute: "attr", ast.alias: "name"}[type(node)]
            if getattr(node, name) in NEW_NAMES:
                yield f"{node.lineno}: {getattr(node, name)}"


def annotations(node: ast.AST) -> Iterator[ast.AST]:
    for field in ("annotation", "returns"):
        if annotation := getattr(node, field, None):
            yield from ast.walk(annotation)


@pytest.mark.parametrize("name", [*MODULES, *SCRIPTS, *COPIED])
def test_a_program_for_other_machines_needs_no_newer_python(name: str) -> None:
    assert list(too_new({**MODULES, **SCRIPTS, **COPIED}[name])) == []


@pytest.mark.parametrize(
    "text",
    [
        "match x:\n    case 1: pass",
        "def f(x: int | None): pass",
        "from __future__ import annotations\nY = str | None",
        "from dataclasses import dataclass\n@dataclass(slots=True)\nclass A: pass",
        "from enum import StrEnum",
        "zip(a, b, strict=True)",
        "try:\n    pass\nexcept* ValueError:\n    pass",
    ],
)
def test_constructs_that_are_too_new_are_detected(text: str) -> None:
    assert list(too_new(text)) != []
