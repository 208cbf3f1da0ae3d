"""What should happen to due times, written more simply than in the product: an oracle for tests."""

from dataclasses import dataclass, field
from datetime import datetime, time, timedelta

MINUTE = timedelta(minutes=1)
WITHIN = timedelta(minutes=60)
Told = tuple[str, str | None]


@dataclass(frozen=True)
class Pattern:
    """Due at one minute of every nth hour, in UTC."""

    hours: int
    minute: int

    @property
    def cron(self) -> str:
        return f"{self.minute} */{self.hours} * * *"

    def after(self, moment: datetime) -> datetime:
        """The first due time after a moment, found by walking."""
        found = moment.replace(minute=self.minute, second=0, microsecond=0)
        if found <= moment:
            found += 60 * MINUTE
        while found.hour % self.hours:
            found += 60 * MINUTE
        return found


@dataclass
class Waiting:
    look: datetime
    waiting_for: str = "start"


@dataclass
class Life:
    """One schedule on one repository."""

    pattern: Pattern
    next_due: datetime | None
    updated_at: datetime
    catches_up: bool = True
    queues: bool = False
    window: tuple[time, time] | None = None
    enabled: bool = True
    online: bool = True
    snoozed_until: datetime | None = None
    running: datetime | None = None
    rows: dict[datetime, Told] = field(default_factory=dict)
    waiting: dict[datetime, Waiting] = field(default_factory=dict)

    # --- the clock ----------------------------------------------------------------------------------------------------

    def went_back(self, now: datetime) -> None:
        for due in [due for due in self.rows if due > now]:
            del self.rows[due]
            self.waiting.pop(due, None)
        if self.next_due is not None:
            counted = [moment for moment in (*self.rows, self.updated_at) if moment <= now]
            self.next_due = self.pattern.after(max(counted, default=now))

    def tick(self, now: datetime, *, paused: bool) -> None:
        if self.next_due is not None and self.next_due <= now:
            self._write(now, paused=paused)
        for due in sorted(self.waiting):
            if self.waiting[due].look <= now:
                self._judge(due, now, paused=paused)

    def _write(self, now: datetime, *, paused: bool) -> None:
        assert self.next_due is not None
        past = [self.next_due]
        while (following := self.pattern.after(past[-1])) <= now:
            past.append(following)
        *older, newest = past
        for due in older:
            self.rows[due] = self._rule(due, paused=paused) or ("missed", "service_down")
        self.next_due = self.pattern.after(newest)
        if rule := self._rule(newest, paused=paused):
            self.rows[newest] = rule
            return
        for due in list(self.waiting):
            self.rows[due] = self._too_late(self.waiting.pop(due).waiting_for)
        self.rows[newest] = ("waiting", None)
        self.waiting[newest] = Waiting(newest)

    def _rule(self, due: datetime, *, paused: bool) -> Told | None:
        if self.snoozed_until is not None and due < self.snoozed_until:
            return ("skipped", "snoozed")
        return ("skipped", "paused") if paused else None

    @staticmethod
    def _too_late(waited_for: str) -> Told:
        ends = {"machine": ("missed", "machine_offline"), "window": ("missed", "window_closed")}
        ends["earlier_run"] = ("skipped", "overlap")
        return ends.get(waited_for, ("missed", "service_down"))

    def _judge(self, due: datetime, now: datetime, *, paused: bool) -> None:
        deadline = None if self.catches_up else self.opens(due) + WITHIN
        opens = self.opens(now)
        if self.snoozed_until is not None and now < self.snoozed_until:
            self._end(due, ("skipped", "snoozed"))
        elif paused:
            self._end(due, ("skipped", "paused"))
        elif deadline is not None and now > deadline:
            self._end(due, self._too_late(self.waiting[due].waiting_for))
        elif opens > now and self.next_due is not None and opens >= self.next_due:
            self._end(due, ("missed", "window_closed"))
        elif opens > now:
            self.waiting[due] = Waiting(opens, "window")
        elif self.running is not None and not self.queues:
            self._end(due, ("skipped", "overlap"))
        elif self.running is not None:
            self.waiting[due] = Waiting(_no_later(now + MINUTE, deadline), "earlier_run")
        elif not self.online:
            self.waiting[due] = Waiting(_no_later(now + 15 * MINUTE, deadline), "machine")
        else:
            self._end(due, ("ran", None))
            self.running = due

    def _end(self, due: datetime, told: Told) -> None:
        del self.waiting[due]
        self.rows[due] = told

    def opens(self, moment: datetime) -> datetime:
        if self.window is None:
            return moment
        start, end = self.window
        for day in (0, 1):
            opens = datetime.combine(moment.date(), start, moment.tzinfo) + timedelta(days=day)
            if moment < datetime.combine(moment.date(), end, moment.tzinfo) + timedelta(days=day):
                return max(opens, moment)
        raise AssertionError("a window opens every day")

    # --- what people and machines do --------------------------------------------------------------------------------

    def run_ends(self, now: datetime) -> None:
        self.running = None
        self._look(now, "earlier_run")

    def machine(self, now: datetime, *, online: bool) -> None:
        self.online = online
        if online:
            self._look(now, "machine")

    def _look(self, now: datetime, waiting_for: str) -> None:
        for waiting in self.waiting.values():
            if waiting.waiting_for == waiting_for:
                waiting.look = min(waiting.look, now)

    def enable(self, now: datetime, *, enabled: bool) -> None:
        self.enabled, self.updated_at = enabled, now
        self.next_due = self.pattern.after(now) if enabled else None
        if not enabled:
            for due in list(self.waiting):
                self._end(due, ("skipped", "disabled"))

    def edit(self, now: datetime, pattern: Pattern) -> None:
        self.pattern, self.updated_at = pattern, now
        self.next_due = self.pattern.after(now) if self.enabled else None


def _no_later(moment: datetime, deadline: datetime | None) -> datetime:
    return moment if deadline is None else min(moment, deadline + timedelta(seconds=1))
