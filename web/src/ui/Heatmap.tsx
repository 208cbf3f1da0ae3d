import type { Schemas } from '../api/client'
import { bytes, counted } from '../lib/numbers'
import { shortDay } from '../lib/time'
import { levels } from './Strip'

const CELL = 13
const DAY = 86_400_000
const monthName = new Intl.DateTimeFormat('en-GB', { month: 'short', timeZone: 'UTC' })

/** A year of days: the darker, the more new data. A day opens its archives. */
export function Heatmap({
  heatmap,
  chosen,
  onDay,
}: {
  heatmap: Schemas['Heatmap']
  chosen: string | null
  onDay: (day: string) => void
}) {
  const known = new Map(heatmap.repository.days.map((day) => [day.date, day]))
  const missed = new Set(heatmap.repository.missed_days)
  const level = levels(heatmap.repository.days.map((day) => day.deduplicated_size ?? 1))
  const first = Date.parse(`${heatmap.since}T00:00:00Z`)
  const last = Date.parse(`${heatmap.until}T00:00:00Z`)
  const start = first - ((new Date(first).getUTCDay() + 6) % 7) * DAY
  const weeks = Math.floor((last - start) / (7 * DAY)) + 1
  const days = Array.from({ length: Math.round((last - start) / DAY) + 1 }, (_, index) => start + index * DAY).filter(
    (at) => at >= first,
  )
  const months = days.filter((at) => new Date(at).getUTCDate() === 1)
  const place = (at: number) => ({
    x: Math.floor((at - start) / (7 * DAY)) * CELL,
    y: (((at - start) / DAY) % 7) * CELL + 16,
  })
  return (
    <div className="card pad scroll gap">
      <svg width={weeks * CELL} height={7 * CELL + 18} role="group" aria-label="Archives by day">
        {months.map((at) => (
          <text key={at} x={place(at).x} y={10} fontSize={11} fill="var(--ink3)">
            {monthName.format(at)}
          </text>
        ))}
        {days.map((at) => {
          const date = new Date(at).toISOString().slice(0, 10)
          const day = known.get(date)
          const { x, y } = place(at)
          const title = day
            ? `${shortDay(date)}: ${counted(day.count, 'archive')}${day.deduplicated_size === null ? '' : `, ${bytes(day.deduplicated_size)} new`}`
            : `${shortDay(date)}: ${missed.has(date) ? 'a backup was due and did not succeed' : 'no archive'}`
          const fill = day
            ? `var(--h${level(day.deduplicated_size ?? 1)})`
            : missed.has(date)
              ? 'transparent'
              : 'var(--h0)'
          return (
            // biome-ignore lint/a11y/noStaticElementInteractions: the table below is reached by keyboard
            <rect
              key={date}
              x={x}
              y={y}
              width={CELL - 2}
              height={CELL - 2}
              rx={2}
              fill={fill}
              stroke={chosen === date ? 'var(--ink)' : missed.has(date) ? 'var(--edge)' : 'none'}
              strokeDasharray={missed.has(date) && chosen !== date ? '2 2' : undefined}
              onClick={day ? () => onDay(date) : undefined}
              style={day ? { cursor: 'pointer' } : undefined}
            >
              <title>{title}</title>
            </rect>
          )
        })}
      </svg>
    </div>
  )
}
