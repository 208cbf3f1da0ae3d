import { expect, test } from 'vitest'
import { sentence } from './words'

const rule = {
  events: [] as string[],
  least_severity: 'warning',
  send: 'change',
  remind_hours: 24,
  destination_ids: null,
  quiet: null,
}

test('a rule reads as a sentence', () => {
  expect(sentence(rule, [])).toBe(
    'Sends warnings and failures to every channel when it starts, changes or ends, with a reminder every day.',
  )
  expect(
    sentence(
      {
        ...rule,
        events: ['backup.failed'],
        send: 'every',
        destination_ids: [3, 4],
        quiet: { from: '22:00', to: '06:00' },
      },
      [{ id: 3, name: 'ops' }],
    ),
  ).toBe('Sends backup.failed to ops, #4 every time, but not between 22:00 and 06:00 unless critical.')
})
