import { expect, test } from 'vitest'
import { own, suggested, trimmed } from './draft'

test('the suggested place is where the person may write', () => {
  expect(suggested(['/etc', '/home/anna/letters'], 'first')).toBe('/home/anna/backups/first')
  expect(suggested(['/root'], 'first')).toBe('/root/backups/first')
  expect(suggested(['/etc'], 'first')).toBe('/srv/backups/first')
})

test('a repository among its sources leaves itself out', () => {
  expect(own(['/home/anna'], '/home/anna/backups/first')).toEqual(['pp:/home/anna/backups/first'])
  expect(own(['/'], '/srv/first')).toEqual(['pp:/srv/first'])
  expect(own(['/home/ann'], '/home/anna/backups')).toEqual([])
})

test('a path has no slash at its end', () => {
  expect(['/home/', '/', ' /srv// '].map(trimmed)).toEqual(['/home', '/', '/srv'])
})
