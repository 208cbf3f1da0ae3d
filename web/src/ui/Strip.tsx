import { type MouseEvent, memo } from 'react'
import { bytes, counted } from '../lib/numbers'
import { shortDay } from '../lib/time'

export interface Day {
  date: string
  archives: number
  new_bytes: number | null
  failed: number
  missed?: boolean
}

const STEP = 8
const BAR = 'h2a2 2 0 0 1 2 2v16a2 2 0 0 1-2 2h-2a2 2 0 0 1-2-2v-16a2 2 0 0 1 2-2z'
const FRAME = 'h2a1.5 1.5 0 0 1 1.5 1.5v16a1.5 1.5 0 0 1-1.5 1.5h-2a1.5 1.5 0 0 1-1.5-1.5v-16a1.5 1.5 0 0 1 1.5-1.5z'

/** The last weeks, a day each: the darker, the more new data. One path for each shade: a table shows many of them. */
export const Strip = memo(({ days }: { days: Day[] }) => {
  const sizes = days.filter((day) => day.archives > 0).map((day) => day.new_bytes ?? 1)
  const level = levels(sizes)
  const made = days.filter((day) => day.archives > 0).length
  const failed = days.filter((day) => day.failed > 0 && day.archives === 0).length
  const words = `Archives on ${made} of the last ${counted(days.length, 'day')}${failed ? `, ${failed} failed` : ''}`
  const paths = new Map<string, string>()
  days.forEach((day, place) => {
    const shade = classOf(day, level)
    const bar = shade === 'missed' ? `M${place * STEP + 2} .5${FRAME}` : `M${place * STEP + 2} 0${BAR}`
    paths.set(shade, (paths.get(shade) ?? '') + bar)
  })
  const explain = (event: MouseEvent<HTMLElement>) => {
    const day = days[Math.floor((event.clientX - event.currentTarget.getBoundingClientRect().left) / STEP)]
    event.currentTarget.title = day ? titleOf(day) : ''
  }
  return (
    <span className="days" role="img" aria-label={words} onMouseMove={explain}>
      <svg width={days.length * STEP} height={20} aria-hidden="true">
        {[...paths].map(([shade, path]) => (
          <path key={shade} className={shade} d={path} />
        ))}
      </svg>
    </span>
  )
})

function classOf(day: Day, level: (size: number) => number): string {
  if (day.archives > 0) return `l${level(day.new_bytes ?? 1)}`
  if (day.failed > 0) return 'failed'
  return day.missed ? 'missed' : 'l0'
}

function titleOf(day: Day): string {
  const made = day.archives
    ? `${counted(day.archives, 'archive')}${day.new_bytes === null ? '' : `, ${bytes(day.new_bytes)} new`}`
    : 'no archive'
  return `${shortDay(day.date)}: ${made}${day.failed ? `, ${day.failed} failed` : ''}`
}

/** Four steps that part the sizes into quarters. */
export function levels(sizes: number[]): (size: number) => number {
  const sorted = [...sizes].sort((one, other) => one - other)
  const cuts = [0.25, 0.5, 0.8].map((part) => sorted[Math.floor(part * (sorted.length - 1))] ?? 0)
  return (size) => 1 + cuts.filter((cut) => size > cut).length
}
