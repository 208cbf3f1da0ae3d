"""The shim reads and writes JSON without the module `json`, with the same results."""

import json
import subprocess
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from backup_engine import shim

VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=12,
)


@given(VALUES, st.sampled_from([None, 2]))
def test_what_json_wrote_is_read_as_json_reads_it(value: object, indent: int | None) -> None:
    content = json.dumps(value, indent=indent).encode()
    assert shim.from_json(content) == json.loads(content)
    assert shim.from_json(b" \n" + content + b" \n") == value


@given(st.dictionaries(st.text(), VALUES, max_size=4))
def test_what_the_shim_writes_is_what_json_writes(record: dict[str, object]) -> None:
    assert shim.to_json(record) == json.dumps(record).encode()


@pytest.mark.parametrize("content", [b"", b"{", b'{"a": 1} x', b"[1,]", b"\xff", b"nothing", b"[" * 100_000])
def test_invalid_json_is_refused_as_json_refuses_it(content: bytes) -> None:
    with pytest.raises((ValueError, RecursionError)) as usual:
        json.loads(content)
    with pytest.raises(usual.type):
        shim.from_json(content)


def test_the_shim_starts_without_the_modules_that_take_longest_to_load() -> None:
    program = (
        "import sys; exec(compile(open(sys.argv[1]).read(), 'shim', 'exec'), {'__name__': 'shim'});"
        "print(sorted({'json', 're', 'enum'} & set(sys.modules)))"
    )
    loaded = subprocess.run(
        [sys.executable, "-I", "-S", "-c", program, shim.__file__], capture_output=True, text=True, check=True
    )
    assert loaded.stdout == "[]\n"
