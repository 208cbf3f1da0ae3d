import { expect, test } from 'vitest'
import { cronOf, daysOf } from './cron'

test('a time of day becomes a pattern', () => {
  expect([
    cronOf('02:00', 'daily'),
    cronOf('23:05', 'weekdays'),
    cronOf('07:30', 'weekly'),
    cronOf('07:30', 'hourly'),
  ]).toEqual(['0 2 * * *', '5 23 * * 1-5', '30 7 * * 0', '0 * * * *'])
})

test('a pattern that the form made is shown as it was chosen, and any other as it is', () => {
  expect(daysOf('5 23 * * 1-5')).toEqual({ days: 'weekdays', time: '23:05' })
  expect(daysOf('30 7 * * 0')).toEqual({ days: 'weekly', time: '07:30' })
  expect(daysOf('0 * * * *').days).toBe('hourly')
  expect(daysOf('*/5 8-18 * * 1-5').days).toBe('own')
})
