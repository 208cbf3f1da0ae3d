const MINUTE = 60
const HOUR = 60 * MINUTE
const DAY = 24 * HOUR

export const zone = Intl.DateTimeFormat().resolvedOptions().timeZone

/** How long a span is, in one unit: `38 min`, `5 d`. */
export function span(seconds: number): string {
  const whole = Math.max(0, Math.round(seconds))
  if (whole < 60) return `${whole} s`
  if (whole < 90 * MINUTE) return `${Math.round(whole / MINUTE)} min`
  if (whole < 2 * DAY) return `${Math.round(whole / HOUR)} h`
  return `${Math.round(whole / DAY)} d`
}

/** A time further ahead than this was recorded by a clock that was wrong, and is shown as it is. */
const CLOCKS_DIFFER = 5 * MINUTE

export function age(at: string, now: number): string {
  const seconds = (now - Date.parse(at)) / 1000
  return seconds < -CLOCKS_DIFFER ? `in ${span(-seconds)}` : span(seconds)
}

/** The same in words, for sentences: `12 seconds ago`, `5 days ago`. */
export function ago(at: string, now: number): string {
  const seconds = (now - Date.parse(at)) / 1000
  if (seconds < -CLOCKS_DIFFER) return `in ${inWords(-seconds)}`
  if (seconds < 5) return 'just now'
  return `${inWords(seconds)} ago`
}

export function inWords(seconds: number): string {
  const [value, unit] = unitOf(Math.max(0, seconds))
  return `${value} ${unit}${value === 1 ? '' : 's'}`
}

function unitOf(seconds: number): [number, string] {
  if (seconds < 60) return [Math.round(seconds), 'second']
  if (seconds < 90 * MINUTE) return [Math.round(seconds / MINUTE), 'minute']
  if (seconds < 2 * DAY) return [Math.round(seconds / HOUR), 'hour']
  return [Math.round(seconds / DAY), 'day']
}

const full = new Intl.DateTimeFormat('en-GB', {
  weekday: 'short',
  day: 'numeric',
  month: 'short',
  year: 'numeric',
  hour: '2-digit',
  minute: '2-digit',
})
const exact = new Intl.DateTimeFormat('en-GB', {
  weekday: 'short',
  day: 'numeric',
  month: 'short',
  year: 'numeric',
  hour: '2-digit',
  minute: '2-digit',
  second: '2-digit',
  timeZoneName: 'short',
})
const day = new Intl.DateTimeFormat('en-GB', { day: 'numeric', month: 'short' })
const dayAndYear = new Intl.DateTimeFormat('en-GB', { day: 'numeric', month: 'short', year: 'numeric' })
const clock = new Intl.DateTimeFormat('en-GB', { hour: '2-digit', minute: '2-digit' })

export const moment = (at: string) => full.format(new Date(at))
export const exactMoment = (at: string) => exact.format(new Date(at))
export const clockTime = (at: string) => clock.format(new Date(at))

/** A date without a time is a day of the calendar, the same in every time zone. */
export function shortDay(at: string): string {
  const date = new Date(/^\d{4}-\d\d-\d\d$/.test(at) ? `${at}T00:00` : at)
  return (date.getFullYear() === new Date().getFullYear() ? day : dayAndYear).format(date)
}

export function duration(seconds: number): string {
  const whole = Math.round(seconds)
  if (whole < 60) return `${whole} s`
  if (whole < HOUR) return `${Math.floor(whole / 60)} min ${whole % 60} s`
  return `${Math.floor(whole / HOUR)} h ${Math.floor((whole % HOUR) / 60)} min`
}
