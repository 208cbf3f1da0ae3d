"""Renders a delivery as subject, text, HTML and JSON."""

import json
from collections.abc import Sequence
from datetime import datetime
from html import escape
from typing import Any

from holdfast.notifications.events.text import clean, filled
from holdfast.notifications.models import Delivery, Severity

MOST_BYTES = 20_000
SERVICE = "Holdfast"


def body_of(delivery: Delivery, template: dict[str, str] | None) -> dict[str, Any]:
    """Return the content of a message for any kind of destination, small enough for all of them."""
    items = list(delivery.items)
    more = delivery.more
    while True:
        body = _body(delivery, items, more, template)
        if max(len(str(part).encode()) for part in body.values()) <= MOST_BYTES or not items:
            return body
        cut = max(1, len(items) // 4)
        items, more = items[:-cut], more + cut


def report_body(
    title: str, text: str, html: str, delivery_uuid: str, now: datetime, data: dict[str, Any]
) -> dict[str, Any]:
    """Return the body of a report. If the JSON is too large, it is reduced to its summary."""
    payload = _json("report", now, {"delivery": delivery_uuid, **data})
    if len(payload.encode()) > MOST_BYTES:
        payload = _json("report", now, {"delivery": delivery_uuid, "summary": data.get("summary"), "is_cut": True})
    return {"subject": title, "text": text, "html": html, "payload": payload}


def _body(
    delivery: Delivery, items: Sequence[dict[str, Any]], more: int, template: dict[str, str] | None
) -> dict[str, Any]:
    total = len(items) + more
    subject = _subject(delivery, items, total, template)
    texts = [_text(item, template) for item in items] + ([f"… and {more} more."] if more else [])
    is_alone = total == 1
    event_type = items[0]["event"] if is_alone and items else "group"
    data = {
        "delivery": delivery.uuid,
        "subject": subject,
        "severity": Severity(delivery.severity).word,
        "items": list(items),
        "more": more,
    }
    return {
        "subject": subject,
        "text": "\n\n".join(texts) + "\n",
        "html": _html(subject, items, texts),
        "payload": _json(event_type if delivery.type != "test" else "test", delivery.created_at, data),
    }


def _json(event_type: str, at: datetime, data: dict[str, Any]) -> str:
    return json.dumps({"type": event_type, "timestamp": at.isoformat(), "data": data}, separators=(",", ":"))


def _subject(delivery: Delivery, items: Sequence[dict[str, Any]], total: int, template: dict[str, str] | None) -> str:
    if template and template.get("subject") and items:
        return clean(filled(template["subject"], values_of(items[0])), 180)
    first = items[0]["title"] if items else delivery.type
    return clean(f"[{SERVICE}] {first}" + (f" and {total - 1} more" if total > 1 else ""), 180)


def _text(item: dict[str, Any], template: dict[str, str] | None) -> str:
    if template and template.get("text"):
        return filled(template["text"], values_of(item))
    lines = [item["title"], *([item["text"]] if item.get("text") else [])]
    incident = item.get("incident") or {}
    if incident.get("state") in ("changed", "again", "reminder"):
        lines.append(f"Failing since {incident['since']}, {incident['count']} times.")
    for label, name in (
        ("Schedule", "schedule"),
        ("Error", "error_key"),
        ("Operation", "operation_id"),
        ("Time", "at"),
    ):
        if item.get(name):
            lines.append(f"{label}: {item[name]}")
    return "\n".join(lines)


def values_of(item: dict[str, Any]) -> dict[str, str]:
    """Return the values of a template's fields."""
    incident = item.get("incident") or {}
    named = {
        "event": item.get("event"),
        "severity": item.get("severity"),
        "title": item.get("title"),
        "text": item.get("text"),
        "repository": item.get("repository"),
        "schedule": item.get("schedule"),
        "agent": item.get("agent"),
        "error": item.get("error_key"),
        "since": incident.get("since"),
        "count": incident.get("count"),
        "operation": item.get("operation_id"),
        "time": item.get("at"),
        "service": SERVICE,
    }
    return {name: clean(value, 1000) if value is not None else "" for name, value in named.items()}


COLOURS = {"info": "#2e7d32", "warning": "#b26a00", "critical": "#b3261e"}


def _html(subject: str, items: Sequence[dict[str, Any]], texts: Sequence[str]) -> str:
    """Return the HTML. Every value is escaped, and nothing is loaded from elsewhere."""
    blocks = []
    for position, text in enumerate(texts):
        severity = items[position].get("severity", "info") if position < len(items) else "info"
        first, *rest = text.split("\n")
        shown = "<br>".join(escape(line) for line in rest)
        border = f"border-left:4px solid {COLOURS.get(severity, COLOURS['info'])};padding:4px 12px;margin:12px 0"
        blocks.append(f'<div style="{border}"><strong>{escape(first)}</strong><br>{shown}</div>')
    return page(subject, "".join(blocks))


def page(title: str, content: str) -> str:
    style = "font-family:sans-serif;font-size:14px;color:#222"
    return (
        f'<!doctype html><html><head><meta charset="utf-8"><title>{escape(title)}</title></head>'
        f'<body style="{style}">{content}</body></html>'
    )
