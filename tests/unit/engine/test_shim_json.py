"""The shim reads and writes JSON as `json` does, without loading it."""

import json
import subprocess
import sys
from typing import Any

import pytest

from backup_engine import repository_guard, shim

RECORDS: list[dict[str, Any]] = [
    {},
    {
        "argv": ["borg", "create", 'ä \udcff \0 "\\\n'],
        "environment": {"LANG": "C.UTF-8", "": ""},
        "nested": [[], {}, [None]],
    },
    {"code": -9, "large": 2**70, "seconds": 0.1, "exact": 1747000000.123456, "tiny": 5e-324, "yes": True, "no": False},
    {"endless": float("inf"), "number": 1e300, "mixed": [1, 2.5, "three", None, {"four": 4}]},
]


@pytest.mark.parametrize("record", RECORDS)
def test_records_are_written_and_read_as_json_does(record: dict[str, Any]) -> None:
    assert shim.to_json(record) == json.dumps(record).encode()
    for content in (
        json.dumps(record).encode(),
        json.dumps(record, ensure_ascii=False).encode("utf-8", "surrogatepass"),
    ):
        assert shim.from_json(content) == json.loads(content) == record


@pytest.mark.parametrize("content", [b' {"a": 1}\n', b'{"a": 1} \n', "{}".encode("utf-16"), b"\xef\xbb\xbf[1]"])
def test_unusual_spelling_is_read_as_json_does(content: bytes) -> None:
    assert shim.from_json(content) == json.loads(content)


@pytest.mark.parametrize(
    "content", [b"", b" ", b"{", b'{"a": 1} {}', b"{'a': 1}", b'{"a": "\xff"}', b"[1,]", b"[" * 100_000]
)
def test_what_json_refuses_is_refused_in_the_same_way(content: bytes) -> None:
    with pytest.raises((ValueError, RecursionError)) as expected:
        json.loads(content)
    with pytest.raises(expected.type) as raised:
        shim.from_json(content)
    assert str(raised.value) == str(expected.value)


def test_what_json_cannot_write_is_refused() -> None:
    with pytest.raises(TypeError, match="not JSON serializable"):
        shim.to_json({"what": object()})


def test_shim_and_guard_load_nothing_that_takes_long() -> None:
    """Each run of an engine starts them; together, these modules would take longer to load than Python itself."""
    script = (
        "import sys; sys.path.append(sys.argv[1]); import shim, repository_guard;"
        "shim.from_json(shim.to_json({'a': [1, None]}));"
        "repository_guard.prepare({'major': 1, 'engine_id': 'a' * 64, 'path': sys.argv[1]}, {}, None);"
        "repository_guard.conclude({'major': 1, 'path': sys.argv[1]}, {}, 0);"
        "print(*sorted({'json', 're', 'enum', 'signal', 'contextlib', 'functools', 'subprocess'} & set(sys.modules)))"
    )
    folder = shim.__file__.rpartition("/")[0]
    assert repository_guard.__file__.rpartition("/")[0] == folder
    done = subprocess.run(
        [sys.executable, "-I", "-S", "-c", script, folder], capture_output=True, text=True, check=True
    )
    assert done.stdout == "\n"
