import { memo } from 'react'
import { bytes, counted } from '../lib/numbers'
import { shortDay } from '../lib/time'

export interface Day {
  date: string
  archives: number
  new_bytes: number | null
  failed: number
  missed?: boolean
}

/** The last weeks, a day each: the darker, the more new data. */
export const Strip = memo(({ days }: { days: Day[] }) => {
  const sizes = days.filter((day) => day.archives > 0).map((day) => day.new_bytes ?? 1)
  const level = levels(sizes)
  const made = days.filter((day) => day.archives > 0).length
  const failed = days.filter((day) => day.failed > 0 && day.archives === 0).length
  const words = `Archives on ${made} of the last ${counted(days.length, 'day')}${failed ? `, ${failed} failed` : ''}`
  return (
    <span className="strip" role="img" aria-label={words}>
      {days.map((day) => (
        <i key={day.date} className={classOf(day, level)} title={titleOf(day)} />
      ))}
    </span>
  )
})

function classOf(day: Day, level: (size: number) => number): string | undefined {
  if (day.archives > 0) return `l${level(day.new_bytes ?? 1)}`
  if (day.failed > 0) return 'failed'
  return day.missed ? 'missed' : undefined
}

function titleOf(day: Day): string {
  const made = day.archives
    ? `${counted(day.archives, 'archive')}${day.new_bytes === null ? '' : `, ${bytes(day.new_bytes)} new`}`
    : 'no archive'
  return `${nameOf(day.date)}: ${made}${day.failed ? `, ${day.failed} failed` : ''}`
}

/** The rows of a table show the same days: each is put into words once. */
const names = new Map<string, string>()
function nameOf(date: string): string {
  const known = names.get(date) ?? shortDay(date)
  names.set(date, known)
  return known
}

/** Four steps that part the sizes into quarters. */
export function levels(sizes: number[]): (size: number) => number {
  const sorted = [...sizes].sort((one, other) => one - other)
  const cuts = [0.25, 0.5, 0.8].map((part) => sorted[Math.floor(part * (sorted.length - 1))] ?? 0)
  return (size) => 1 + cuts.filter((cut) => size > cut).length
}
