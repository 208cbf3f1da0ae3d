"""A log of a million lines in the page: how it scrolls, and how soon any line is shown."""

import random

from bench.report import Measurement, Options
from bench.timing import percentile
from bench.web_support.browser import Measured

MOST_MISSED_PERCENT, MOST_ROWS, JUMP_MILLISECONDS = 1, 80, 150
FRAME_MILLISECONDS = 1000 / 60
# The times between frames while nothing moves: what the machine itself misses.
STILL = """(frames) => new Promise((done) => { const gaps = []; let last = 0
  const step = (now) => { if (last) gaps.push(now - last); last = now
    gaps.length < frames ? requestAnimationFrame(step) : done(gaps) }
  requestAnimationFrame(step) })"""
# Jump to a place in the log and return the milliseconds until its first visible line has its text.
JUMP = """(share) => new Promise((done) => { const box = document.querySelector('.log')
  const begun = performance.now(); box.scrollTop = share * (box.scrollHeight - box.clientHeight)
  const look = () => { const top = box.getBoundingClientRect().top
    const line = [...box.querySelectorAll('.log-line')].find((one) => one.getBoundingClientRect().bottom > top + 1)
    line?.lastElementChild.textContent ? done(performance.now() - begun) : requestAnimationFrame(look) }
  requestAnimationFrame(look) })"""


def scroll(box: str) -> str:
    """A script that scrolls some rows per frame and returns the times between the frames."""
    return f"""(frames) => new Promise((done) => {{ const box = document.querySelector('{box}'), gaps = []; let last = 0
  const step = (now) => {{ if (last) gaps.push(now - last); last = now; box.scrollTop += 60
    gaps.length < frames ? requestAnimationFrame(step) : done(gaps) }}
  requestAnimationFrame(step) }})"""


def measure_log(measured: Measured, operation: int, options: Options) -> list[Measurement]:
    page = measured.page
    page.goto(f"/operations/{operation}")
    page.locator(".log-line").first.wait_for()
    frames = 120 if options.quick else 600
    still, scrolled = (missed(page.evaluate(script, frames)) for script in (STILL, scroll(".log")))
    chance = random.Random(1)
    jumps = [page.evaluate(JUMP, chance.random()) for _ in range(options.repeats(40))]
    rows = page.locator(".log-line").count()
    what = f"a log of {options.rows():,} lines"
    return [
        Measurement(
            f"{what}: frames missed while it scrolls",
            scrolled,
            "%",
            MOST_MISSED_PERCENT + still,
            f"still page {still:.1f} %",
        ),
        Measurement(f"{what}: lines in the document", rows, "", MOST_ROWS),
        Measurement(f"{what}: jump to any line, 95th percentile", percentile(jumps, 95), "ms", JUMP_MILLISECONDS),
    ]


def missed(gaps: list[float]) -> float:
    """The percentage of frames that did not come in time."""
    return 100 * sum(gap > 1.5 * FRAME_MILLISECONDS for gap in gaps) / len(gaps)
