import { expect, test } from 'vitest'
import { dayKey, folded, monday } from './Calendar'

test('a week begins on Monday, also when today is a Sunday', () => {
  const sunday = new Date(2026, 10, 22, 15, 30)
  expect(dayKey(monday(sunday.getTime()))).toBe('2026-11-16')
  expect(dayKey(monday(new Date(2026, 10, 16, 0, 0).getTime()))).toBe('2026-11-16')
})

test('an hourly schedule is one line a day, but for runs that ended otherwise', () => {
  const entry = (hour: number, result: string | null) => ({
    schedule_id: 1,
    due_at: `2026-11-17T${String(hour).padStart(2, '0')}:15:00Z`,
    outcome: result ? ('ran' as const) : null,
    result,
    reason: 'on_time' as const,
  })
  const lines = folded([entry(8, 'completed'), entry(9, 'failed'), entry(10, 'completed'), entry(11, null)])
  expect(lines.map(({ one, last, times }) => [one.due_at.slice(11, 13), last.slice(11, 13), times])).toEqual([
    ['08', '10', 2],
    ['09', '09', 1],
    ['11', '11', 1],
  ])
})
