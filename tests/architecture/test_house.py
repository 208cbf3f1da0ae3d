"""Rules of the repository: locks that name no host, one list of members, and layers that cover every part."""

import ast
import re
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from packaging.version import Version

ROOT = Path(__file__).resolve().parents[2]
RUNTIME_LOCK = ROOT / "requirements.lock"
DEVELOPMENT_LOCK = ROOT / "requirements-dev.lock"
LOCKS = sorted([*ROOT.glob("requirements*.lock"), *ROOT.glob("tools/locks/*.lock")])
MEMBERS = sorted([*ROOT.glob("packages/*/pyproject.toml"), ROOT / "server" / "pyproject.toml"])
MAY_IMPORT = {
    "agent": {"backup_engine", "backup_jobs"},
    "jobs": {"backup_engine"},
    "protocol": {"backup_engine"},
    "engine": {"borg", "helper"},  # for modules that run under the engine's own Python
}
STANDARD_LIBRARY_ONLY = [
    name for name in ("agent", "engine", "jobs", "protocol") if (ROOT / "packages" / name).is_dir()
]


def read_toml(path: Path) -> dict[str, Any]:
    return tomllib.loads(path.read_text())


def locked_versions(lock: Path) -> dict[str, set[Version]]:
    """Map each package of a lock to its versions: a universal lock may contain one for each platform."""
    versions: dict[str, set[Version]] = {}
    for name, version in re.findall(r"^([A-Za-z0-9._-]+)(?:\[[^]]*\])?==([^ ;\\]+)", lock.read_text(), re.MULTILINE):
        versions.setdefault(canonicalize_name(name), set()).add(Version(version))
    return versions


def own_names() -> set[str]:
    return {canonicalize_name(read_toml(member)["project"]["name"]) for member in MEMBERS}


def not_locked(requirements: list[str], lock: Path) -> list[str]:
    locked = locked_versions(lock)
    foreign = [each for each in map(Requirement, requirements) if canonicalize_name(each.name) not in own_names()]
    return [
        str(each)
        for each in foreign
        if not any(each.specifier.contains(version) for version in locked.get(canonicalize_name(each.name), ()))
    ]


def test_the_lock_files_are_found() -> None:
    assert {RUNTIME_LOCK, DEVELOPMENT_LOCK} < set(LOCKS)
    assert len(locked_versions(RUNTIME_LOCK)) > 20


@pytest.mark.parametrize("lock", LOCKS, ids=lambda lock: lock.name)
def test_a_lock_names_no_host_and_no_path(lock: Path) -> None:
    lines = [line for line in lock.read_text().splitlines() if not line.lstrip().startswith("#")]
    forbidden = re.compile(r"://|--(extra-)?index|--find-links|--trusted-host|^-e |^\./| @ ")

    assert [line for line in lines if forbidden.search(line)] == []


@pytest.mark.parametrize("lock", LOCKS, ids=lambda lock: lock.name)
def test_every_package_of_a_lock_has_a_hash(lock: Path) -> None:
    entries = re.split(r"^(?=[A-Za-z0-9])", lock.read_text(), flags=re.MULTILINE)[1:]

    assert entries
    assert [entry.split()[0] for entry in entries if "--hash=sha256:" not in entry] == []


def test_a_package_lock_contains_no_download_address() -> None:
    locks = [path for path in ROOT.glob("**/package-lock.json") if not {"node_modules", ".venv"} & set(path.parts)]

    assert [str(path) for path in locks if re.search(r'"resolved": *"[a-z+]+://', path.read_text())] == []


@pytest.mark.parametrize("member", MEMBERS, ids=lambda member: member.parent.name)
def test_every_dependency_of_a_member_is_locked(member: Path) -> None:
    dependencies = read_toml(member)["project"].get("dependencies", [])

    assert not_locked(dependencies, RUNTIME_LOCK) == [], "run `make lock`"
    assert not_locked(dependencies, DEVELOPMENT_LOCK) == [], "run `make lock`"


def test_every_development_tool_is_locked() -> None:
    assert not_locked(read_toml(ROOT / "pyproject.toml")["dependency-groups"]["dev"], DEVELOPMENT_LOCK) == []


def test_both_locks_agree_on_every_version() -> None:
    development = locked_versions(DEVELOPMENT_LOCK)

    assert {
        name: versions for name, versions in locked_versions(RUNTIME_LOCK).items() if development[name] != versions
    } == {}


def test_the_workspace_lists_every_member() -> None:
    listed = read_toml(ROOT / "pyproject.toml")["tool"]["uv"]["workspace"]["members"]

    assert sorted(listed) == sorted(str(member.parent.relative_to(ROOT)) for member in MEMBERS)


def imported_modules(package: Path) -> Iterator[tuple[Path, str]]:
    for path in package.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Import):
                yield from ((path, alias.name) for alias in node.names)
            elif isinstance(node, ast.ImportFrom) and node.level == 0 and node.module:
                yield path, node.module


@pytest.mark.parametrize("name", STANDARD_LIBRARY_ONLY)
def test_a_package_for_the_agent_imports_only_the_standard_library(name: str) -> None:
    package = ROOT / "packages" / name / "src" / f"backup_{name}"
    allowed = sys.stdlib_module_names | {package.name, "backup_protocol"} | MAY_IMPORT.get(name, set())
    imports = list(imported_modules(package))

    assert imports
    assert [(str(path), module) for path, module in imports if module.partition(".")[0] not in allowed] == []


@pytest.mark.parametrize("name", STANDARD_LIBRARY_ONLY)
def test_a_package_for_the_agent_has_no_third_party_dependencies(name: str) -> None:
    dependencies = read_toml(ROOT / "packages" / name / "pyproject.toml")["project"]["dependencies"]

    assert {canonicalize_name(Requirement(each).name) for each in dependencies} <= own_names()


def test_every_part_of_the_server_belongs_to_a_layer() -> None:
    contracts = read_toml(ROOT / "pyproject.toml")["tool"]["importlinter"]["contracts"]
    layers = next(contract["layers"] for contract in contracts if contract.get("containers") == ["holdfast"])
    placed = {name for layer in layers for name in re.findall(r"\w+", layer)}
    server = ROOT / "server" / "src" / "holdfast"
    packages = {path.parent.name for path in server.glob("*/__init__.py")}
    modules = {path.stem for path in server.glob("*.py")} - {"__init__", "__main__"}

    assert packages | modules <= placed, "name it in [tool.importlinter] of pyproject.toml"


def test_every_make_target_is_in_the_help() -> None:
    makefile = (ROOT / "Makefile").read_text()
    phony = next(re.finditer(r"^\.PHONY: (.*)$", makefile, re.MULTILINE))[1].split()
    explained = re.findall(r"^([a-z]+):.*## \S", makefile, re.MULTILINE)

    assert sorted(phony) == sorted(explained)
    assert {"run", "test", "setup", "bench", "chaos", "check", "demo", "help"} <= set(explained)


def test_an_idle_service_loads_no_modules_it_does_not_need() -> None:
    script = """
import sys
from holdfast.entry import quick_start
quick_start.begin()
import holdfast.entry.serve
print(*(name for name, module in sys.modules.items() if module))
"""
    loaded = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True).stdout.split()
    not_needed = {"click", "cryptography", "numpy", "sqlalchemy.dialects.postgresql", "xml.etree.ElementTree"}

    assert not_needed.isdisjoint(loaded)
    assert "holdfast.composition" in loaded
