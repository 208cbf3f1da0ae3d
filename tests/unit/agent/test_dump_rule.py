"""Which databases an agent lets the service dump: only those that its own configuration names."""

from pathlib import Path
from typing import Any

import pytest

from backup_agent.dump_rule import DumpRule, Refused
from backup_protocol import DatabaseBlock, DumpBlock

ALLOWED = ("postgresql:shop", "postgresql_globals:*", "mysql:*", "mysql:shop@db.example.org", "sqlite:/srv/app.db")


def block(kind: str, database: str | None = None, **more: Any) -> DumpBlock:
    return DumpBlock(databases=(DatabaseBlock("app", kind, database, **more),))


@pytest.mark.parametrize(
    "wanted",
    [
        block("postgresql", "shop"),
        block("postgresql", "shop", host="localhost", user="backup"),
        block("postgresql", "shop", host="/run/postgresql"),
        block("postgresql_globals"),
        block("mysql", "anything"),
        block("mysql", "shop", host="db.example.org", port=3307),
        block("sqlite", "/srv/app.db"),
    ],
)
def test_databases_named_by_the_owner_may_be_dumped(wanted: DumpBlock) -> None:
    DumpRule(ALLOWED).require(wanted)


@pytest.mark.parametrize(
    "wanted",
    [
        block("postgresql", "shop2"),
        block("postgresql", "shop", host="elsewhere.example.org"),
        block("postgresql_globals", host="elsewhere.example.org"),
        block("mysql", "other", host="db.example.org"),
        block("sqlite", "/srv/other.db"),
        block("sqlite", "/srv/../srv/app.db"),
        block("sqlite"),
        DumpBlock(databases=(*block("postgresql", "shop").databases, *block("sqlite", "/etc/secret.db").databases)),
    ],
)
def test_other_databases_are_refused(wanted: DumpBlock) -> None:
    with pytest.raises(Refused, match=r"\[databases\]"):
        DumpRule(ALLOWED).require(wanted)
    with pytest.raises(Refused):
        DumpRule().require(wanted)


def test_a_link_and_the_agents_own_data_are_refused_even_if_named(tmp_path: Path) -> None:
    file, link, state = tmp_path / "app.db", tmp_path / "link.db", tmp_path / "state"
    file.touch()
    link.symlink_to(file)
    state.mkdir()
    (state / "own.db").touch()
    rule = DumpRule((f"sqlite:{file}", f"sqlite:{link}", f"sqlite:{state}/own.db"), own=(str(state),))

    rule.require(block("sqlite", str(file)))
    with pytest.raises(Refused, match="link"):
        rule.require(block("sqlite", str(link)))
    with pytest.raises(Refused, match="data of the agent"):
        rule.require(block("sqlite", f"{state}/own.db"))


def test_dump_programs_are_looked_up_in_the_owners_folders_first(tmp_path: Path) -> None:
    assert DumpRule(programs=(str(tmp_path), "/opt/bin")).path.startswith(f"{tmp_path}:/opt/bin:/usr/")
