import { expect, test } from 'vitest'
import { chosenOf, stepsOf } from './chosen'

test('a new schedule backs up, prunes, compacts, checks weekly and proves a restore monthly', () => {
  expect(stepsOf(chosenOf(null), []).map((step) => [step.kind, step.every_days])).toEqual([
    ['backup', undefined],
    ['prune', undefined],
    ['compact', null],
    ['check', 7],
    ['restore_check', 30],
  ])
})

test('a schedule that is opened and saved stays as it was', () => {
  const steps = [
    { kind: 'backup' },
    { kind: 'prune', keep_daily: 3, keep_weekly: null, keep_monthly: null, keep_yearly: null, keep_last: 2 },
    { kind: 'check', every_days: 14, verify_data: true },
    { kind: 'mirror' },
  ]
  expect(stepsOf(chosenOf(steps), steps)).toEqual(steps)
})

test('steps that the form does not know keep their place around the backup', () => {
  const steps = [{ kind: 'dump' }, { kind: 'backup' }, { kind: 'script' }]
  expect(stepsOf({ ...chosenOf(steps), check: 7 }, steps).map((step) => step.kind)).toEqual([
    'dump',
    'backup',
    'check',
    'script',
  ])
})
