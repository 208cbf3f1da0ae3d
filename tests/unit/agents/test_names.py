"""Archive names that an agent's engine fills in."""

import pytest

from holdfast.backup.agent_backups import engine_name


@pytest.mark.parametrize(
    ("template", "name"),
    [
        ("{repository}-{now}", "the-web-{now:%Y-%m-%dT%H:%M:%S.%f}"),
        ("daily {now:%Y/%m/%d}", "daily-{now:%Y-%m-%d}"),
        ("plain", "plain"),
        ("a::b/{repository}", "a-b-the-web"),
    ],
)
def test_a_template_becomes_a_name_with_the_engines_placeholders(template: str, name: str) -> None:
    assert engine_name(template, "the web") == name
