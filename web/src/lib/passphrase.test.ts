import { expect, test } from 'vitest'
import { generated, twoOf } from './passphrase'

test('a passphrase is six words that can be said, and never the same twice', () => {
  const made = Array.from({ length: 200 }, generated)
  for (const one of made) expect(one).toMatch(/^([bdfghjklmnprstvz][aeio][bdfghjklmnprstvz][aeio][klmnprst](-|$)){6}$/)
  expect(new Set(made).size).toBe(200)
})

test('the two words asked for are different ones, in their order', () => {
  for (let turn = 0; turn < 200; turn += 1) {
    const [first, second] = twoOf(6)
    expect(first).toBeGreaterThanOrEqual(0)
    expect(second).toBeGreaterThan(first)
    expect(second).toBeLessThan(6)
  }
})
