import type { Schemas } from '../../api/client'

export const RULES = [
  ['keep_last', 'newest'],
  ['keep_hourly', 'hourly'],
  ['keep_daily', 'daily'],
  ['keep_weekly', 'weekly'],
  ['keep_monthly', 'monthly'],
  ['keep_yearly', 'yearly'],
] as const
export type Rule = (typeof RULES)[number][0]
export type Policy = Partial<Record<Rule, number>>
export type Simulated = Schemas['Simulated']
export type Forecast = Schemas['Forecast']
export type Past = Schemas['Past']

/** The rules of a repository that can be changed here; those that keep nothing are left out. */
export function policyOf(retention: Partial<Record<Rule, number | null>>): Policy {
  return Object.fromEntries(RULES.flatMap(([rule]) => (retention[rule] ? [[rule, retention[rule]]] : [])))
}

export const isEmpty = (policy: Policy) => Object.values(policy).every((value) => !value)

export const isSame = (one: Policy, other: Policy) => RULES.every(([rule]) => (one[rule] || 0) === (other[rule] || 0))

const DAY = 86_400_000
const number = (day: string) => Math.round(Date.parse(`${day}T00:00:00Z`) / DAY)

/** The first day of the strips of all policies, so that they can be compared. */
export function firstDay(all: Simulated[], until: string): string {
  return all
    .flatMap((one) => one.days.map((each) => each.day))
    .reduce((one, other) => (one < other ? one : other), until)
}

/** Where on a strip from the first to the last day the restore points are: position and width in days. */
export function marks(simulated: Simulated, first: string): { at: number; day: string; points: number }[] {
  return simulated.days.map((each) => ({
    at: number(each.day) - number(first),
    day: each.day,
    points: each.restore_points,
  }))
}

export const daysBetween = (first: string, last: string) => number(last) - number(first) + 1

const AGES: Record<string, string> = {
  day: 'on the last day',
  week: 'in the last week',
  month: 'in the last month',
  quarter: 'in the last quarter',
  year: 'in the last year',
  older: 'before that',
}
export const ageWord = (age: string) => AGES[age] ?? age

const ORIGINS: Record<string, string> = {
  request: 'as asked',
  schedule: 'as scheduled',
  past: 'as often as so far',
  assumed: 'daily, as there is no history yet',
}
export const originWord = (origin: string) => ORIGINS[origin] ?? origin

/** A day some days from now, as the service writes it. */
export const dayAhead = (days: number, now = Date.now()) => new Date(now + days * DAY).toISOString().slice(0, 10)

const NO_FORECAST: Record<string, string> = {
  too_few_backups: 'there are too few backups for a forecast',
  several_series: "the sizes of the repository's series are not known separately",
  no_sizes: 'the repository has not been measured',
}
export const noForecastWord = (reason: string) => NO_FORECAST[reason] ?? reason

/** The days of a strip of past days: those whose restore points are left, and those whose are all gone. */
export function pastMarks(past: Past): { at: number; day: string; left: number; gone: number }[] {
  const days = new Map<string, { left: number; gone: number }>()
  for (const point of past.points) {
    const day = point.start.slice(0, 10)
    const known = days.get(day) ?? { left: 0, gone: 0 }
    if (point.gone_at === null) known.left += 1
    else known.gone += 1
    if (day >= past.since) days.set(day, known)
  }
  return [...days].map(([day, counts]) => ({ at: number(day) - number(past.since), day, ...counts }))
}
