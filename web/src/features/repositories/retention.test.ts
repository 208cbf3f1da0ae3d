import { describe, expect, it } from 'vitest'
import {
  dayAhead,
  daysBetween,
  firstDay,
  isEmpty,
  isSame,
  marks,
  noForecastWord,
  type Past,
  pastMarks,
  policyOf,
  type Simulated,
} from './retention'

const simulated = (...days: string[]) =>
  ({ days: days.map((day) => ({ day, restore_points: 1 })) }) as unknown as Simulated

describe('retention', () => {
  it('takes over the rules that keep something', () => {
    expect(policyOf({ keep_daily: 7, keep_weekly: 0, keep_yearly: null })).toEqual({ keep_daily: 7 })
    expect(isEmpty({ keep_daily: 0 })).toBe(true)
    expect(isEmpty({ keep_daily: 1 })).toBe(false)
  })

  it('knows a changed rule, and that nothing is the same as zero', () => {
    expect(isSame({ keep_daily: 7 }, { keep_daily: 7, keep_weekly: 0 })).toBe(true)
    expect(isSame({ keep_daily: 7 }, { keep_daily: 8 })).toBe(false)
  })

  it('puts the strips of two policies on one line of time', () => {
    const newer = simulated('2027-01-03', '2027-01-01')
    const both = [newer, simulated('2026-12-30')]
    const first = firstDay(both, '2027-01-05')
    expect(first).toBe('2026-12-30')
    expect(daysBetween(first, '2027-01-05')).toBe(7)
    expect(marks(newer, first).map((mark) => mark.at)).toEqual([4, 2])
    expect(firstDay([], '2027-01-05')).toBe('2027-01-05')
  })

  it('tells days whose restore points are left from those whose are gone', () => {
    const point = (start: string, gone_at: string | null) => ({ start: `${start}T02:00:00Z`, gone_at })
    const points = [point('2026-03-03', null), point('2026-03-03', '2026-03-04T00:00:00Z'), point('2026-03-02', 'x')]
    const past = { since: '2026-03-01', points: [...points, point('2026-02-01', null)] } as unknown as Past
    expect(pastMarks(past)).toEqual([
      { at: 2, day: '2026-03-03', left: 1, gone: 1 },
      { at: 1, day: '2026-03-02', left: 0, gone: 1 },
    ])
  })

  it('says why there is no forecast', () => {
    expect(noForecastWord('no_sizes')).toContain('measured')
    expect(noForecastWord('another')).toBe('another')
  })

  it('counts days in UTC', () => {
    expect(dayAhead(1, Date.parse('2026-12-31T23:30:00Z'))).toBe('2027-01-01')
  })
})
