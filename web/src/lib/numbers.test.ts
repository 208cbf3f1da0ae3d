import { afterEach, expect, test, vi } from 'vitest'
import { bytes, counted } from './numbers'
import { age, ago, duration, span } from './time'

afterEach(() => vi.unstubAllEnvs())

test('sizes have three digits at most and a unit', () => {
  expect([0, 999, 1000, 1536, 10_500_000, 3_200_000_000_000].map(bytes)).toEqual([
    '0 B',
    '999 B',
    '1 KB',
    '1.54 KB',
    '10.5 MB',
    '3.2 TB',
  ])
})

test('one thing is not called by its plural', () => {
  expect([counted(0, 'file'), counted(1, 'file'), counted(41_208, 'file')]).toEqual([
    '0 files',
    '1 file',
    '41,208 files',
  ])
})

test('an age has one unit', () => {
  expect([30, 60, 38 * 60, 3 * 3600, 5 * 86_400].map(span)).toEqual(['30 s', '1 min', '38 min', '3 h', '5 d'])
})

test('an age in words reads as a sentence', () => {
  const now = Date.parse('2026-11-16T12:00:00Z')
  expect(ago('2026-11-16T11:00:00Z', now)).toBe('60 minutes ago')
  expect(ago('2026-11-11T12:00:00Z', now)).toBe('5 days ago')
  expect(ago('2026-11-16T12:00:01Z', now)).toBe('just now')
})

test('a time ahead is not shown as now', () => {
  const now = Date.parse('2026-11-16T12:00:00Z')
  expect(ago('2027-12-21T12:00:00Z', now)).toBe('in 400 days')
  expect(age('2027-12-21T12:00:00Z', now)).toBe('in 400 d')
  expect(age('2026-11-16T12:00:01Z', now)).toBe('0 s')
})

test.each(['America/Los_Angeles', 'UTC', 'Pacific/Auckland'])('a date is the same day in %s', async (zone) => {
  vi.stubEnv('TZ', zone)
  vi.resetModules()
  const { shortDay, zone: known } = await import('./time')
  expect(known).toBe(zone)
  expect(shortDay('2019-11-19')).toBe('19 Nov 2019')
  expect(shortDay('2019-03-10')).toBe('10 Mar 2019')
  expect(shortDay('2019-11-19T12:00:00Z')).toBe(zone === 'Pacific/Auckland' ? '20 Nov 2019' : '19 Nov 2019')
})

test('a duration keeps its seconds while they matter', () => {
  expect([9, 75, 3_700].map(duration)).toEqual(['9 s', '1 min 15 s', '1 h 1 min'])
})
