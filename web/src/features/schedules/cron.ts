export type Days = 'daily' | 'weekdays' | 'weekly' | 'hourly' | 'own'

const DAYS: Record<Exclude<Days, 'hourly' | 'own'>, string> = { daily: '*', weekdays: '1-5', weekly: '0' }

export function cronOf(time: string, days: Exclude<Days, 'own'>): string {
  if (days === 'hourly') return '0 * * * *'
  const [hour = '2', minute = '0'] = time.split(':')
  return `${Number(minute)} ${Number(hour)} * * ${DAYS[days]}`
}

/** The other way round, for the patterns that the form knows. */
export function daysOf(pattern: string): { days: Days; time: string } {
  if (pattern === '0 * * * *') return { days: 'hourly', time: '02:00' }
  const found = /^(\d{1,2}) (\d{1,2}) \* \* (\*|1-5|0)$/.exec(pattern)
  if (!found) return { days: 'own', time: '02:00' }
  const [, minute = '0', hour = '2', day] = found
  const days = (Object.keys(DAYS) as (keyof typeof DAYS)[]).find((name) => DAYS[name] === day) ?? 'daily'
  return { days, time: `${hour.padStart(2, '0')}:${minute.padStart(2, '0')}` }
}
