import { expect, test } from 'vitest'
import { changed } from './diff'
import { inWords, signed, sum, word } from './differences'
import { at, changeBeside, type Lane, type Lanes, named, ordered } from './model'
import { joined } from './whole'

const lane = (pieces: [number, number][], name = 'a', type = '-'): Lane => ({
  path: name,
  path_b64: null,
  name,
  name_b64: null,
  type,
  pieces: pieces.map(([first, last]) => ({ first, last, size: 1, mtime: null })),
})

test('a name is here, was here, or comes later', () => {
  const one = lane([
    [2, 3],
    [5, 5],
  ])
  expect(at(one, 1, 8)).toMatchObject({ state: 'absent', last: null, next: { first: 2 } })
  expect(at(one, 2, 8)).toMatchObject({ state: 'here', changed: true, goneAt: null })
  expect(at(one, 3, 8)).toMatchObject({ state: 'here', changed: false })
  expect(at(one, 4, 8)).toMatchObject({ state: 'absent', last: { last: 3 }, next: { first: 5 } })
  expect(at(one, 5, 8)).toMatchObject({ state: 'here', goneAt: 6 })
  expect(at(one, 7, 8)).toMatchObject({ state: 'absent', last: { last: 5 }, next: null })
})

test('what is in the newest archive is not gone', () => {
  expect(at(lane([[0, 7]]), 3, 8)).toMatchObject({ goneAt: null })
})

test('the step to an earlier change passes over archives in which nothing changed', () => {
  const archives = [true, false, false, true, false].map((changed_here, id) => ({
    id,
    changed_here,
  })) as Lanes['archives']
  expect(changeBeside(archives, 4, -1)).toBe(2)
  expect(changeBeside(archives, 2, -1)).toBeNull()
  expect(changeBeside(archives, 0, 1)).toBe(3)
  expect(changeBeside(archives, 3, 1)).toBeNull()
})

test('folders come first and numbers count by value', () => {
  const names = ordered([lane([], 'b10'), lane([], 'b9'), lane([], 'z', 'd')]).map((one) => one.name)
  expect(names).toEqual(['z', 'b9', 'b10'])
})

test('a comparison shows what changed and a few lines around it', () => {
  const before = ['1', '2', '3', '4', '5', 'x', '6', '7', '8', '9', '10'].join('\n')
  const lines = changed(before, before.replace('x', 'y'))
  expect(lines.map((line) => line.kind + line.text)).toEqual([' 3', ' 4', ' 5', '-x', '+y', ' 6', ' 7', ' 8'])
})

test('the pages of a folder are one folder', () => {
  const archive = (id: number, changed_here: boolean) => ({ id, changed_here })
  const page = (names: string[], changed: boolean[], next_cursor: string | null) =>
    ({
      path: 'a',
      total: 3,
      entries: names.map((name) => ({ name })),
      archives: changed.map((one, at) => archive(at, one)),
      next_cursor,
    }) as never
  const whole = joined(page(['a'], [true, false], 'x'), [
    page(['b'], [false, false], 'y'),
    page(['c'], [false, true], null),
  ])
  expect(whole.entries.map((one) => one.name)).toEqual(['a', 'b', 'c'])
  expect(whole.archives.map((one) => one.changed_here)).toEqual([true, true])
  expect(whole.next_cursor).toBe(null)
})

test('a filter finds parts of names in either case, and nothing typed finds all', () => {
  const all = [lane([[0, 1]], 'Invoice-07.pdf'), lane([[0, 1]], 'notes.txt')]
  expect(named(all, ' invoice ').map((one) => one.name)).toEqual(['Invoice-07.pdf'])
  expect(named(all, 'missing')).toEqual([])
  expect(named(all, '  ')).toBe(all)
})

const folders = [
  { added: 2, modified: 0, removed: 1 },
  { added: 0, modified: 1200, removed: 0 },
]

test('differences between two times are added up, and named only where there are any', () => {
  expect(inWords(sum(folders))).toBe('2 added, 1,200 changed, 1 removed')
  expect(inWords({ added: 0, modified: 3, removed: 0 })).toBe('3 changed')
})

test('a file that differs has a word, and its bytes a sign', () => {
  expect(word({ added: 0, modified: 0, removed: 1 })).toBe('removed')
  expect(word({ added: 0, modified: 1, removed: 0 })).toBe('changed')
  expect([2000, -30].map(signed)).toEqual(['+2 KB', '−30 B'])
})
