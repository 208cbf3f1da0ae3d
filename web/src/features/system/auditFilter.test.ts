import { expect, test } from 'vitest'
import { asQuery, startOfDay } from './auditFilter'

test('an object is a kind, or a kind and an id', () => {
  expect(asQuery({ object: 'repository' })).toMatchObject({ object_type: 'repository', object_id: undefined })
  expect(asQuery({ object: ' repository  3 ' })).toMatchObject({ object_type: 'repository', object_id: '3' })
})

test('the last day is included as a whole', () => {
  const { since, until } = asQuery({ from: '2026-11-17', to: '2026-11-17' })
  expect(Date.parse(until as string) - Date.parse(since as string)).toBe(24 * 3600 * 1000)
})

test('what is not a day filters nothing', () => {
  expect(startOfDay('yesterday', 0)).toBeUndefined()
  expect(startOfDay(undefined, 1)).toBeUndefined()
})

test('without filters nothing is asked for in particular', () => {
  expect(Object.values(asQuery({})).every((value) => value === undefined)).toBe(true)
})
