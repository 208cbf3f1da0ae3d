import re
import zlib
from pathlib import Path

import pytest

HERE = Path(__file__).parent
TAKE_TURNS = ("contract", "engine/test_real_engines.py", "unit/history")
EITHER = (("sqlite", "postgresql"), ("1.2", "1.4"))


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """What is there for both stores, or for both series of the engine, takes its turn on one of them, told by its name.

    `make campaign` plays the other one. What depends on the store itself runs on both: the folders that are not named here.
    """
    known = {item.nodeid for item in items}
    for item in items:
        if any(item.path.is_relative_to(HERE / name) for name in TAKE_TURNS) and not _has_its_turn(item.nodeid, known):
            item.add_marker(pytest.mark.campaign)


def _has_its_turn(name: str, known: set[str]) -> bool:
    file, _, parameters = name.partition("[")
    for words in EITHER:
        word = re.compile(r"(?<![\w.])(" + "|".join(map(re.escape, words)) + r")(?![\w.])")
        here = word.search(parameters)
        if here is None or f"{file}[{_with(word, _other(words, here[0]), parameters)}" not in known:
            continue
        chosen = words[zlib.crc32(f"{file}[{_with(word, 'either', parameters)}".encode()) % 2]
        if here[0] != chosen:
            return False
    return True


def _with(word: re.Pattern[str], other: str, parameters: str) -> str:
    return word.sub(other, parameters, count=1)


def _other(words: tuple[str, str], this: str) -> str:
    return words[1 - words.index(this)]
