export type Days = 'daily' | 'weekdays' | 'weekly' | 'hourly'

const DAYS: Record<Exclude<Days, 'hourly'>, string> = { daily: '*', weekdays: '1-5', weekly: '0' }

export function cronOf(time: string, days: Days): string {
  if (days === 'hourly') return '0 * * * *'
  const [hour = '2', minute = '0'] = time.split(':')
  return `${Number(minute)} ${Number(hour)} * * ${DAYS[days]}`
}
