import { type MouseEvent, memo, useEffect, useMemo, useRef } from 'react'
import type { Schemas } from '../api/client'
import { bytes, counted } from '../lib/numbers'
import { shortDay } from '../lib/time'
import { levels } from './Strip'

const CELL = 13
const DAY = 86_400_000
const monthName = new Intl.DateTimeFormat('en-GB', { month: 'short', timeZone: 'UTC' })

const TOP = 16
const SIDE = CELL - 2
const SQUARE = `h${SIDE - 4}a2 2 0 0 1 2 2v${SIDE - 4}a2 2 0 0 1-2 2h-${SIDE - 4}a2 2 0 0 1-2-2v-${SIDE - 4}a2 2 0 0 1 2-2z`

type Data = Schemas['Heatmap']

/** A year of days: the darker, the more new data. A day opens its archives. */
export function Heatmap({
  heatmap,
  chosen,
  onDay,
}: {
  heatmap: Data
  chosen: string | null
  onDay: (day: string) => void
}) {
  const year = useMemo(() => yearOf(heatmap), [heatmap])
  const box = useRef<HTMLDivElement>(null)
  // Where a year is wider than the screen, its newest weeks are in view.
  useEffect(() => {
    box.current?.scrollTo({ left: year.weeks * CELL })
  }, [year.weeks])
  const pointed = (event: MouseEvent<SVGSVGElement>) => {
    const box = event.currentTarget.getBoundingClientRect()
    return year.dateAt(event.clientX - box.left, event.clientY - box.top)
  }
  const explain = (event: MouseEvent<SVGSVGElement>) => {
    const date = pointed(event)
    const holder = event.currentTarget.parentElement
    if (holder) holder.title = date === null ? '' : year.words(date)
    event.currentTarget.style.cursor = date !== null && year.has(date) ? 'pointer' : 'default'
  }
  const open = (event: MouseEvent<SVGSVGElement>) => {
    const date = pointed(event)
    if (date !== null && year.has(date)) onDay(date)
  }
  return (
    <div className="card pad scroll gap" ref={box}>
      {/* biome-ignore lint/a11y/useKeyWithClickEvents: the table below is reached by keyboard */}
      <svg
        className="heatmap"
        width={year.weeks * CELL}
        height={7 * CELL + 18}
        role="img"
        aria-label={`Archives on ${counted(heatmap.repository.days.length, 'day')} of the last year`}
        onMouseMove={explain}
        onClick={open}
      >
        <Days year={year} />
        {chosen !== null && <path className="chosen" d={year.path([chosen])} />}
      </svg>
    </div>
  )
}

type Year = ReturnType<typeof yearOf>

/** One path for each shade: a year has 365 days. */
const Days = memo(({ year }: { year: Year }) => (
  <>
    {year.months.map(({ x, word }) => (
      <text key={x} x={x} y={10} fontSize={11} fill="var(--ink3)">
        {word}
      </text>
    ))}
    {[...year.shades].map(([shade, dates]) => (
      <path key={shade} className={shade} d={year.path(dates)} />
    ))}
  </>
))

function yearOf(heatmap: Data) {
  const known = new Map(heatmap.repository.days.map((day) => [day.date, day]))
  const missed = new Set(heatmap.repository.missed_days)
  const level = levels(heatmap.repository.days.map((day) => day.deduplicated_size ?? 1))
  const first = Date.parse(`${heatmap.since}T00:00:00Z`)
  const last = Date.parse(`${heatmap.until}T00:00:00Z`)
  const start = first - ((new Date(first).getUTCDay() + 6) % 7) * DAY
  const dates = Array.from({ length: Math.round((last - first) / DAY) + 1 }, (_, index) => nameOf(first + index * DAY))
  const column = (at: number) => Math.floor((at - start) / (7 * DAY)) * CELL
  const shades = new Map<string, string[]>()
  for (const date of dates) {
    const day = known.get(date)
    const shade = day ? `l${level(day.deduplicated_size ?? 1)}` : missed.has(date) ? 'missed' : 'l0'
    const others = shades.get(shade)
    if (others) others.push(date)
    else shades.set(shade, [date])
  }
  return {
    weeks: Math.floor((last - start) / (7 * DAY)) + 1,
    months: dates
      .filter((date) => date.endsWith('-01'))
      .map((date) => ({ x: column(Date.parse(date)), word: monthName.format(Date.parse(date)) })),
    shades,
    has: (date: string) => known.has(date),
    path: (some: string[]) =>
      some
        .map((date) => {
          const at = Date.parse(date)
          return `M${column(at) + 2} ${(((at - start) / DAY) % 7) * CELL + TOP}${SQUARE}`
        })
        .join(''),
    dateAt: (x: number, y: number): string | null => {
      if (x < 0 || y < TOP || y >= TOP + 7 * CELL) return null
      const at = start + (Math.floor(x / CELL) * 7 + Math.floor((y - TOP) / CELL)) * DAY
      return at >= first && at <= last ? nameOf(at) : null
    },
    words: (date: string): string => {
      const day = known.get(date)
      if (!day) return `${shortDay(date)}: ${missed.has(date) ? 'a backup was due but did not succeed' : 'no archive'}`
      const added = day.deduplicated_size === null ? '' : `, ${bytes(day.deduplicated_size)} new`
      return `${shortDay(date)}: ${counted(day.count, 'archive')}${added}`
    },
  }
}

const nameOf = (at: number) => new Date(at).toISOString().slice(0, 10)
