"""The text format, read by Prometheus' own parser."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from prometheus_client.parser import text_string_to_metric_families

from holdfast.metrics.exposition import Family, distinct, label, text_of

HOSTILE = [
    "plain",
    'quo"te',
    "back\\slash",
    "new\nline",
    "carriage\rreturn",
    '"} 1\nholdfast_forged{x="',
    "\u202eright to left",
    "\u2028 line separator",
    "\x00\x1b[31mred",
    "x" * 10_000,
    "ключ 鍵 🔑",
    "",
    "trailing\\",
]


def parsed(text: str) -> dict[str, list[tuple[dict[str, str], float]]]:
    found: dict[str, list[tuple[dict[str, str], float]]] = {}
    for family in text_string_to_metric_families(text):
        for sample in family.samples:
            found.setdefault(sample.name, []).append((sample.labels, sample.value))
    return found


@pytest.mark.parametrize("name", HOSTILE)
def test_a_hostile_name_is_one_label_of_one_series(name: str) -> None:
    family = Family("holdfast_example", "gauge", "An example.")
    family.add(7, label("repository", name))

    [(labels, value)] = parsed(text_of([family]))["holdfast_example"]

    assert value == 7
    assert set(labels) == {"repository"}
    assert len(labels["repository"]) <= 200
    assert "\n" not in labels["repository"]


@given(st.lists(st.text(alphabet=st.characters(codec=None), max_size=300), min_size=1, max_size=8))
def test_series_of_any_names_are_parsed_and_never_share_their_labels(names: list[str]) -> None:
    family = Family("holdfast_example", "gauge", "An example.")
    for number, text in distinct("repository", enumerate(names)).items():
        family.add(number, text)

    text = text_of([family])
    text.encode()
    found = parsed(text)["holdfast_example"]

    assert sorted(value for _, value in found) == list(range(len(names)))
    assert len({labels["repository"] for labels, _ in found}) == len(names)


def test_numbers_keep_their_exact_value() -> None:
    family = Family("holdfast_example", "gauge", "An example.")
    values = [0, 1, 2**53, 0.1, 1_700_000_000.123456, float("inf")]
    for number, value in enumerate(values):
        family.add(value, label("n", str(number)))

    assert [value for _, value in parsed(text_of([family]))["holdfast_example"]] == values
