"""Confirming a call: the service and the caller never both decide."""

import os
from pathlib import Path
from typing import Any, cast

import pytest

from backup_engine.far.agent_call import Permission
from holdfast.agents.calls import Calls
from holdfast.agents.credentials import KnownAgent
from holdfast.errors import NotFound

NAME = f"7-{'0' * 32}"


def agent(own_id: int = 7) -> KnownAgent:
    return cast("KnownAgent", type("Agent", (), {"id": own_id})())


@pytest.fixture
def calls(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Calls:
    monkeypatch.chdir(tmp_path)
    return Calls(tmp_path, cast("Any", None), lambda _agents: None)


def test_a_call_is_confirmed_again_and_again_until_its_caller_gives_up(calls: Calls) -> None:
    with Permission(NAME) as permission:
        calls.confirm(agent(), NAME)
        calls.confirm(agent(), NAME)
        assert permission.withdraw(), "the engine may have run"
        with pytest.raises(NotFound):
            calls.confirm(agent(), NAME)
        assert permission.withdraw()
    assert os.listdir() == []


def test_a_call_is_not_confirmed_once_its_caller_has_given_up(calls: Calls) -> None:
    with Permission(NAME) as permission:
        assert not permission.withdraw(), "the engine never runs"
        with pytest.raises(NotFound):
            calls.confirm(agent(), NAME)
        assert not permission.withdraw()


@pytest.mark.parametrize("is_begun", [False, True])
def test_a_call_whose_caller_was_killed_is_not_confirmed(calls: Calls, tmp_path: Path, is_begun: bool) -> None:
    permission = Permission(NAME).__enter__()
    if is_begun:
        calls.confirm(agent(), NAME)
    os.close(permission._descriptor)
    with pytest.raises(NotFound):
        calls.confirm(agent(), NAME)

    with Permission(NAME.replace("0", "1")) as alive:
        again = Calls(tmp_path, cast("Any", None), lambda _agents: None)
        assert os.listdir() == [alive._wanted], "what killed callers left behind is removed"
        again.confirm(agent(), NAME.replace("0", "1"))


@pytest.mark.parametrize("name", [NAME, "x", f"../{NAME}"])
def test_only_the_agent_of_a_call_may_confirm_it(calls: Calls, name: str) -> None:
    with Permission(NAME), pytest.raises(NotFound):
        calls.confirm(agent(8), name)
