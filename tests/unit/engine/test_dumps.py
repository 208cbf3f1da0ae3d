"""Which program dumps which database, and how it receives the password."""

import json
from pathlib import Path

import pytest

from backup_engine.command import Command
from backup_engine.detect import EngineUnsupported
from backup_engine.dumps import TRANSACTIONAL, Database, feeding
from backup_engine.feed import NonTransactionalTables, options_file
from backup_engine.requests import InvalidRequest

SECRET = "a secret of the tests"
CREATE = Command(("borg", "create", "repository::archive", "a.dump", "b.sql"))


@pytest.fixture
def path(tmp_path: Path) -> str:
    for name in ("pg_dump", "pg_dumpall", "mariadb-dump", "sqlite3"):
        program = tmp_path / name
        program.touch()
        program.chmod(0o755)
    return str(tmp_path)


def test_no_password_is_in_the_engines_arguments_or_environment(path: str) -> None:
    databases = [
        Database("a", "postgresql", "shop", host="db", user="backup", password=SECRET),
        Database("b", "mysql", "shop", host="db", port=3307, user="backup", password=SECRET),
        Database("c", "postgresql_globals", password=SECRET),
        Database("d", "sqlite", "/srv/app.db"),
    ]
    command = feeding(CREATE, databases, path)

    assert SECRET not in json.dumps([command.argv, dict(command.environment), command.shown])
    assert {name: secret.delivery for name, secret in command.secrets.items()} == dict.fromkeys(
        ("HOLDFAST_DUMP_1", "HOLDFAST_DUMP_2", "HOLDFAST_DUMP_3"), "descriptor"
    )
    spec = json.loads(command.argv[-1])
    assert spec["engine"] == list(CREATE.argv)
    assert [dump["file"] for dump in spec["dumps"]] == ["a.dump", "b.sql", "c.sql", "d.sql"]
    assert [bool(dump["end_mark"]) for dump in spec["dumps"]] == [False, True, True, True]


def test_a_database_that_cannot_be_dumped_is_refused(path: str, tmp_path: Path) -> None:
    for wrong in (
        Database("a", "sqlite", "app.db"),
        Database("a", "postgresql", "shop\nname"),
        Database("a", "mysql", "shop", user="x\ny"),
        Database("a", "mysql"),
        Database("../a", "mysql", "shop"),
        Database("a", "oracle", "shop"),
    ):
        with pytest.raises(InvalidRequest):
            feeding(CREATE, [wrong], path)
    with pytest.raises(EngineUnsupported, match="pg_dump is not installed"):
        feeding(CREATE, [Database("a", "postgresql", "shop")], str(tmp_path / "nowhere"))


def test_an_option_file_quotes_its_values() -> None:
    assert options_file({"user": "me"}, 'a"b\\c #d') == b'[client]\nuser="me"\npassword="a\\"b\\\\c #d"\n'


DUMP = r"""-- MariaDB dump 10.19
CREATE TABLE `safe` (
  `n` int(11) DEFAULT NULL COMMENT ') ENGINE=MyISAM;\n) ENGINE=MyISAM '
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4;
INSERT INTO `safe` VALUES (1,'\nCREATE TABLE `data` (\n) ENGINE=MyISAM ;\n');
CREATE TABLE `old``er` (
  `n` int(11) DEFAULT NULL
) ENGINE=MyISAM DEFAULT CHARSET=utf8mb4;
INSERT INTO `old``er` VALUES (1),(2);
/*!50001 CREATE TABLE `view` (
  `n` tinyint NOT NULL
) ENGINE=MyISAM */;
CREATE TABLE `été` (
  `n` int(11) DEFAULT NULL
) ENGINE=Aria DEFAULT CHARSET=utf8mb4 PAGE_CHECKSUM=1;
CREATE TABLE `nothing` (
  `n` int(11) DEFAULT NULL
) ENGINE=BLACKHOLE;
--
-- Dumping routines for database 'shop'
--
CREATE PROCEDURE `p`()
BEGIN
CREATE TABLE `temporary` (
n int
) ENGINE=MEMORY ;
END ;;
-- Dump completed
""".encode()


def test_tables_without_transactions_are_found_whatever_the_size_of_the_chunks() -> None:
    for size in (1, 2, 3, 7, 50, 199, len(DUMP)):
        tables = NonTransactionalTables(list(TRANSACTIONAL))
        for first in range(0, len(DUMP), size):
            tables.scan(DUMP[first : first + size])
        assert list(tables.found) == ["old`er", "été"], size
