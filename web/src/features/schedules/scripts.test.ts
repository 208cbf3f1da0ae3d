import { expect, test } from 'vitest'
import { changed, isOn, scriptStep, stepWord, withScripts } from './scripts'

test('scripts are put before and after the backup, in their order', () => {
  const steps = [{ kind: 'script', script_id: 9 }, { kind: 'dump' }, { kind: 'backup' }, { kind: 'prune' }]
  const made = withScripts(steps, [scriptStep(1), { ...scriptStep(2), when: 'after' }, scriptStep(3)])
  expect(made.map((step) => step.script_id ?? step.kind)).toEqual([1, 3, 'dump', 'backup', 2, 'prune'])
})

test('a script that moves behind the backup loses what it has only before it', () => {
  const moved = changed({ ...scriptStep(1), on_failure: 'warn', scope: 'once' }, { when: 'after' })
  expect(moved).toEqual({ ...scriptStep(1), when: 'after', scope: 'once', on_failure: null })
  expect(changed({ ...moved, run_on: 'failure' }, { when: 'before' }).run_on).toBe(null)
})

test('a step names its script, and that it runs once for all repositories', () => {
  const scripts = [{ id: 7, name: 'mount' }]
  expect(stepWord({ kind: 'script', script_id: 7, scope: 'once' }, scripts)).toBe('Script mount, once for all')
  expect(stepWord({ kind: 'script', script_id: 8 }, scripts)).toBe('Script')
  expect(stepWord({ kind: 'restore_check' }, scripts)).toBe('Restore check')
})

test('a new step says that it has no secrets, so that it does not get those of another one', () => {
  expect(withScripts([], [scriptStep(1)])[0]).toMatchObject({ script_id: 1, has_secrets: false })
})

test('a stored yes is shown as yes', () => {
  expect([true, 'true', false, 'false', undefined].map(isOn)).toEqual([true, true, false, false, false])
})
