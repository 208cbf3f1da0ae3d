#!/usr/bin/env python3
"""Write docs/errors.md, and the advice shown in the web UI, from the rows in each feature's `error_facts.toml`.

    tools/errors_document.py [--check]

With --check nothing is written; the exit code is 1 if a committed file differs, or if the code returns a key that has
no row. Keys of rows that no code returns any more are printed.
"""

import ast
import json
import re
import sys
import tomllib
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Literal

ROOT = Path(__file__).resolve().parent.parent
DOCUMENT = ROOT / "docs" / "errors.md"
ADVICE = ROOT / "web" / "src" / "api" / "advice.json"
SERVER = ROOT / "server" / "src" / "holdfast"
KEY = re.compile(r"[a-z][a-z_0-9]*\.[a-z_0-9]+")
OF_OPERATIONS = {"Outcome", "TryAgain", "Failed", "Trouble", "_Failed", "fail_pending", "JobReport", "refused"}
"""Calls that take the key of a failed operation; none of their other strings look like a key."""
INTRODUCTION = """# Errors

Made by `tools/errors_document.py` from each feature's `error_facts.toml`; do not edit it by hand.

A refused request answers `{"detail": {"key": …, "message": …, "params": {…}}}` with the status below. A failed
operation carries the key as `error_key` and a sentence as `error_message`; both are marked `operation` here, findings
of a connection test `test`. The key stays the same between versions; the message may change. A request that does not
fit the API's schema answers 422 with a list of fields instead.
"""


Where = int | Literal["operation", "test", "other"]
"""An HTTP status, `operation` for an operation's `error_key`, `test` for a finding of a connection test, or `other` for
any other HTTP status.
"""


@dataclass(frozen=True)
class Fact:
    """The explanation of an error key."""

    key: str
    where: tuple[Where, ...]
    happened: str
    to_do: str
    safe: str = "Nothing was changed."


def features() -> dict[str, tuple[Fact, ...]]:
    """The rows of each feature, by feature name."""
    return {path.parent.name: _read(path) for path in sorted(SERVER.glob("*/error_facts.toml"))}


def _read(path: Path) -> tuple[Fact, ...]:
    rows = tomllib.loads(path.read_text()).items()
    return tuple(Fact(key, **{**row, "where": tuple(row["where"])}) for key, row in rows)


def document(rows: Mapping[str, Iterable[Fact]]) -> str:
    parts = [INTRODUCTION]
    for name, facts in rows.items():
        parts.append(
            f"\n## {name}\n\n| key | where | what happened | what is safe | what to do |\n|---|---|---|---|---|\n"
        )
        parts += [_line(fact) for fact in sorted(facts, key=lambda fact: fact.key)]
    return "".join(parts)


def _line(fact: Fact) -> str:
    where = ", ".join(map(str, fact.where))
    return f"| `{fact.key}` | {where} | {fact.happened} | {fact.safe} | {fact.to_do} |\n"


def advice(rows: Mapping[str, Iterable[Fact]]) -> str:
    """JSON with what is safe and what to do, by the key of a failed operation, for the web UI."""
    facts = sorted((fact for found in rows.values() for fact in found), key=lambda fact: fact.key)
    told = {fact.key: f"{fact.safe} {fact.to_do}" for fact in facts if "operation" in fact.where}
    return json.dumps(told, indent=2, ensure_ascii=False) + "\n"


@dataclass
class Answered:
    """The keys in the code, each with the HTTP statuses it is raised with, and every string that could be a key."""

    statuses: dict[str, set[int]] = field(default_factory=dict)
    texts: set[str] = field(default_factory=set)


@cache
def answered() -> Answered:
    """Find the keys that the code returns: calls whose key is a string literal or a constant."""
    trees = [ast.parse(path.read_text(), str(path)) for path in _sources()]
    nodes_of = [list(ast.walk(tree)) for tree in trees]
    errors = _error_classes(node for nodes in nodes_of for node in nodes)
    found = Answered()
    for tree, nodes in zip(trees, nodes_of, strict=True):
        constants = dict(_constants(tree))
        found.statuses.update({key: found.statuses.get(key, set()) for key in _pairs(tree)})
        for node in nodes:
            if isinstance(node, ast.Constant) and isinstance(node.value, str):
                found.texts.add(node.value)
            for key, status in _keys_of(node, errors, constants):
                found.statuses.setdefault(key, set()).update(status)
    return found


def _sources() -> Iterator[Path]:
    for base in (SERVER, *(ROOT / "packages").glob("*/src")):
        for path in sorted(base.rglob("*.py")):
            if not {"migrations", "entry"}.intersection(path.parts):
                yield path


def _error_classes(nodes: Iterable[ast.AST]) -> dict[str, int]:
    """The error classes that carry an HTTP status, by name, whichever feature declares them."""
    classes = [node for node in nodes if isinstance(node, ast.ClassDef)]
    known = {"HoldfastError": 500}
    while True:
        more = {}
        for node in classes:
            bases = [base.id for base in node.bases if isinstance(base, ast.Name) and base.id in known]
            if bases and node.name not in known:
                more[node.name] = _own_status(node) or known[bases[0]]
        if not more:
            return known
        known |= more


def _own_status(node: ast.ClassDef) -> int | None:
    for line in node.body:
        if isinstance(line, ast.Assign) and isinstance(line.value, ast.Constant):
            names = [target.id for target in line.targets if isinstance(target, ast.Name)]
            if names == ["status"] and isinstance(line.value.value, int):
                return line.value.value
    return None


def _constants(tree: ast.Module) -> Iterator[tuple[str, str]]:
    """Module constants that are a key, or a pair of a key and its sentence."""
    for node in tree.body:
        if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name):
            value = node.value.elts[0] if isinstance(node.value, ast.Tuple) and node.value.elts else node.value
            if isinstance(value, ast.Constant) and isinstance(value.value, str):
                yield node.targets[0].id, value.value


def _pairs(tree: ast.Module) -> Iterator[str]:
    """The keys of module constants that pair a key with its sentence."""
    for node in tree.body:
        if isinstance(node, ast.Assign) and isinstance(node.value, ast.Tuple) and len(node.value.elts) == 2:
            key, sentence = (
                element.value if isinstance(element, ast.Constant) else None for element in node.value.elts
            )
            if isinstance(key, str) and KEY.fullmatch(key) and isinstance(sentence, str) and " " in sentence:
                yield key


def _keys_of(node: ast.AST, errors: Mapping[str, int], constants: Mapping[str, str]) -> Iterator[tuple[str, set[int]]]:
    if (
        isinstance(node, ast.Assign | ast.AnnAssign)
        and isinstance(node.value, ast.Dict)
        and _is_named(node, "SENTENCES")
    ):
        for named in node.value.keys:
            yield from ((key, set[int]()) for key in _as_key(named, constants))
    if isinstance(node, ast.ClassDef) and node.name in errors:
        for call in (child for child in ast.walk(node) if isinstance(child, ast.Call)):
            if isinstance(call.func, ast.Attribute) and call.func.attr == "__init__" and call.args:
                yield from ((key, {errors[node.name]}) for key in _as_key(call.args[0], constants))
    if isinstance(node, ast.Call):
        name = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
        if name in errors and node.args:
            yield from ((key, {errors[name]}) for key in _as_key(node.args[0], constants))
        if name in OF_OPERATIONS:
            given = [*node.args, *(keyword.value for keyword in node.keywords if keyword.arg == "error_key")]
            for argument in given:
                yield from ((key, set[int]()) for key in _as_key(argument, constants))


def _is_named(node: ast.Assign | ast.AnnAssign, name: str) -> bool:
    target = node.targets[0] if isinstance(node, ast.Assign) else node.target
    return isinstance(target, ast.Name) and target.id == name


def _as_key(node: ast.expr | None, constants: Mapping[str, str]) -> list[str]:
    if isinstance(node, ast.Starred):
        node = node.value
    text = constants.get(node.id) if isinstance(node, ast.Name) else getattr(node, "value", None)
    return [text] if isinstance(text, str) and KEY.fullmatch(text) else []


def faults() -> list[str]:
    """What is missing or wrong in the rows, one message each."""
    rows = {fact.key: fact for facts in features().values() for fact in facts}
    found = answered()
    told = [f"{key}: the code answers it; add its row to the error_facts.toml of the feature that owns it"
            for key in sorted(found.statuses.keys() - rows.keys())]  # fmt: skip
    for key, statuses in sorted(found.statuses.items()):
        if key in rows and (missing := statuses - set(rows[key].where)):
            told.append(f"{key}: its row does not name the status {', '.join(map(str, sorted(missing)))}")
    return told


def left_over() -> list[str]:
    """The keys of rows that no code returns."""
    rows = {fact.key for facts in features().values() for fact in facts}
    return sorted(rows - answered().texts)


def main() -> int:
    if wrong := faults():
        print("\n".join(wrong))
        return 1
    for key in left_over():
        print(f"{key}: no code answers it; remove its row unless its feature is on the way")
    made = {DOCUMENT: document(features()), ADVICE: advice(features())}
    if "--check" in sys.argv[1:]:
        return int(any(path.read_text() != text for path, text in made.items()))
    for path, text in made.items():
        path.write_text(text)
    return 0


if __name__ == "__main__":
    sys.exit(main())
