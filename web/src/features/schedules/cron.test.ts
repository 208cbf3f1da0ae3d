import { expect, test } from 'vitest'
import { cronOf } from './cron'

test('a time of day becomes a pattern', () => {
  expect([
    cronOf('02:00', 'daily'),
    cronOf('23:05', 'weekdays'),
    cronOf('07:30', 'weekly'),
    cronOf('07:30', 'hourly'),
  ]).toEqual(['0 2 * * *', '5 23 * * 1-5', '30 7 * * 0', '0 * * * *'])
})
