"""Renders a report as text and HTML."""

from collections.abc import Sequence
from datetime import datetime
from html import escape

from holdfast.notifications.deliver.render import COLOURS, page
from holdfast.notifications.events.text import clean
from holdfast.notifications.reports.findings import Findings, Line

MOST_LINES = 200
HEADINGS = (
    "Repository",
    "State",
    "Last backup",
    "Age",
    "Backups",
    "Failed",
    "Missed",
    "Growth",
    "Last proof",
    "Next due",
)


def text_of(title: str, findings: Findings) -> str:
    lines = [title, _period(findings), "", findings.summary + ".", ""]
    lines += [_line(line, findings.until) for line in _sorted(findings)[:MOST_LINES]]
    lines += _rest(findings)
    for heading, entries in (("Open alarms", findings.alarms), ("Open incidents", findings.incidents)):
        if entries:
            lines += ["", f"{heading}:", *(f"- {clean(entry)}" for entry in entries[:50])]
    return "\n".join(lines) + "\n"


def html_of(title: str, findings: Findings) -> str:
    rows = "".join(_row(line, findings.until) for line in _sorted(findings)[:MOST_LINES])
    head = "".join(f'<th align="left" style="padding:2px 10px 2px 0">{heading}</th>' for heading in HEADINGS)
    colour = COLOURS["info" if findings.is_well else "critical"]
    parts = [
        f"<h2>{escape(title)}</h2><p>{escape(_period(findings))}</p>",
        f'<p style="color:{colour}"><strong>{escape(findings.summary)}.</strong></p>',
        f"<table><tr>{head}</tr>{rows}</table>",
        *(f"<p>{escape(line)}</p>" for line in _rest(findings)),
    ]
    for heading, entries in (("Open alarms", findings.alarms), ("Open incidents", findings.incidents)):
        if entries:
            shown = "".join(f"<li>{escape(clean(entry))}</li>" for entry in entries[:50])
            parts.append(f"<h3>{heading}</h3><ul>{shown}</ul>")
    return page(title, "".join(parts))


def _sorted(findings: Findings) -> Sequence[Line]:
    """Return the repositories, those that need attention first."""
    return sorted(findings.lines, key=lambda line: (line.is_well, line.repository))


def _rest(findings: Findings) -> list[str]:
    rest = len(findings.lines) - MOST_LINES
    return [f"… and {rest} more repositories."] if rest > 0 else []


def _period(findings: Findings) -> str:
    return f"{_time(findings.since)} to {_time(findings.until)} (UTC)"


def _cells(line: Line, now: datetime) -> list[str]:
    state = "well" if line.is_well else "attention"
    if line.failing_since is not None:
        state = f"failing since {_time(line.failing_since)}"
    return [
        clean(line.repository),
        state,
        _time(line.last_success),
        _age(line.last_success, now),
        str(line.backups),
        str(line.failed),
        str(line.missed),
        _bytes(line.growth),
        _time(line.last_proof),
        _time(line.next_due),
    ]


def _line(line: Line, now: datetime) -> str:
    name, state, *values = _cells(line, now)
    shown = ", ".join(f"{heading.lower()} {value}" for heading, value in zip(HEADINGS[2:], values, strict=True))
    return f"{name}: {state}; {shown}"


def _row(line: Line, now: datetime) -> str:
    style = "" if line.is_well else f' style="color:{COLOURS["critical"]}"'
    cells = "".join(f'<td style="padding:2px 10px 2px 0">{escape(cell)}</td>' for cell in _cells(line, now))
    return f"<tr{style}>{cells}</tr>"


def _time(moment: datetime | None) -> str:
    return "never" if moment is None else f"{moment:%Y-%m-%d %H:%M}"


def _age(moment: datetime | None, now: datetime) -> str:
    if moment is None:
        return "-"
    hours = max(0, int((now - moment).total_seconds() // 3600))
    return f"{hours} h" if hours < 48 else f"{hours // 24} d"


def _bytes(number: int | None) -> str:
    if number is None:
        return "-"
    size = float(number)
    for unit in ("B", "KiB", "MiB", "GiB"):
        if size < 1024:
            return f"{size:.0f} {unit}" if unit == "B" else f"{size:.1f} {unit}"
        size /= 1024
    return f"{size:.1f} TiB"
