"""The archives from which the service determines how a backup of an agent ended."""

from datetime import datetime
from typing import Any

from tests.contract.agents.agent import Agent


def listed(key: str, name: str, start: datetime, archive_id: str = "ab" * 32) -> dict[str, Any]:
    """An archive as listed by the engine."""
    local = start.strftime("%Y-%m-%dT%H:%M:%S.%f+00:00")
    return {
        "archive": name,
        "name": name,
        "barchive": name,
        "id": archive_id,
        "comment": key,
        "start": local,
        "time": local,
        "end": local,
        "hostname": "far",
        "username": "root",
    }


def question_about(agent: Agent, job: int) -> int | None:
    """The id of the evidence job with which the service queries the repository about another job."""
    return next((each["id"] for each in agent.poll(limit=10) if each["type"] == "evidence" and each["id"] != job), None)


def answer(agent: Agent, question: int, *archives: dict[str, Any]) -> None:
    agent.begin(question)
    agent.post(question, "parts", {"part": 0, "items": list(archives)})
    assert agent.complete(question, parts=1).json()["status"] == "completed"
