"""Which stored secrets the steps of a schedule keep when it is edited."""

from typing import Any

import pytest

from holdfast.errors import Unprocessable
from holdfast.scripts.kept_secrets import KeptSecrets
from holdfast.scripts.models import StoredScript
from holdfast.scripts.schemas import ScriptStep

DECLARED = [
    {"name": "password", "type": "text", "secret": True, "required": False},
    {"name": "database", "type": "text", "secret": False, "required": False},
]
VALUES = {"of-one": {"password": "1"}, "of-two": {"password": "2"}, "of-one-again": {"password": "1"}}
KEPT = KeptSecrets(StoredScript(name="dump", parameters=DECLARED), lambda name: VALUES.get(name or "", {}))


def step(database: str | None = None, secret_id: str | None = None, **more: Any) -> ScriptStep:
    given = {"database": database} if database is not None else {}
    return ScriptStep(script_id=1, secret_id=secret_id, **{"parameters": given, **more})


def shown(database: str | None = None, **more: Any) -> ScriptStep:
    return step(database, has_secrets=True, **more)


ONE, TWO = step("one", "of-one"), step("two", "of-two")
NEW = {"database": "new", "password": "3"}


@pytest.mark.parametrize(
    ("stored", "wanted", "kept"),
    [
        ([ONE, TWO], [shown("one"), shown("two")], ["of-one", "of-two"]),
        ([ONE, TWO], [shown("two"), shown("one")], ["of-two", "of-one"]),
        ([ONE, TWO], [shown("two")], ["of-two"]),
        ([ONE, TWO], [shown("two", when="after"), shown("one")], ["of-two", "of-one"]),
        ([ONE, TWO], [shown("renamed"), shown("two")], ["of-one", "of-two"]),
        ([ONE, step("two")], [step("two"), shown("one")], [None, "of-one"]),
        ([ONE, TWO], [step("new", has_secrets=False), shown("two")], [None, "of-two"]),
        ([ONE, TWO], [step(parameters=NEW), shown("two")], [None, "of-two"]),
        ([ONE], [step("one"), step("another")], ["of-one", None]),
        ([], [step("one")], [None]),
        ([ONE, step("two", "of-one-again")], [shown("both")], ["of-one"]),
    ],
)
def test_a_step_keeps_the_secrets_of_the_one_that_it_was(
    stored: list[ScriptStep], wanted: list[ScriptStep], kept: list[str | None]
) -> None:
    assert KEPT.of(wanted, stored) == kept


def test_steps_that_look_alike_keep_their_order_if_they_are_sent_back_as_shown() -> None:
    alike = [step(secret_id="of-one"), step(secret_id="of-two")]
    assert KEPT.of([shown(), shown()], alike) == ["of-one", "of-two"]
    assert KEPT.of(alike, alike) == ["of-one", "of-two"]
    assert KEPT.of([shown(), shown(parameters={"password": "3"})], alike) == ["of-one", "of-two"]


@pytest.mark.parametrize(
    ("stored", "wanted"),
    [
        ([ONE, TWO], [shown("uno"), shown("dos")]),
        ([ONE, TWO], [shown("uno")]),
        ([ONE, step("two")], [shown("uno")]),
        ([ONE], [step("uno"), step("dos")]),
        ([ONE], [step("one"), step("one")]),
        ([step(None, "of-one"), step(None, "of-two")], [shown()]),
        ([step(None, "of-one"), step(None, "of-two")], [shown(), step(has_secrets=False)]),
        ([step(None, "of-one"), step(None, "of-two", on_failure="warn")], [shown(on_failure="warn"), shown()]),
    ],
)
def test_a_step_that_could_be_one_of_several_is_refused(stored: list[ScriptStep], wanted: list[ScriptStep]) -> None:
    with pytest.raises(Unprocessable) as refused:
        KEPT.of(wanted, stored)
    assert refused.value.key == "scripts.secret_needed"
    assert refused.value.params["parameter"] == "password"
