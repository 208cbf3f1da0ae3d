import { expect, test } from 'vitest'
import { difference } from './roles'

test('a change of role says what is gained and what is lost', () => {
  expect(difference('viewer', 'viewer')).toBe('')
  expect(difference('viewer', 'operator')).toBe('Will be able to start backups, restores and maintenance.')
  expect(difference('admin', 'operator')).toBe(
    'Will no longer manage users, machines and settings, and see every repository.',
  )
  expect(difference('admin', 'viewer')).toMatch(/^Will no longer start backups.*; manage users/)
})
