import { expect, test } from 'vitest'
import { type Kit, page, parts } from './kit'

const kit: Kit = {
  name: 'letters <&>',
  path: "/srv/anna's backups",
  passphrase: 'bodik-kamer',
  key: 'BORG_KEY 00\nabc\n',
  engine: '1.4.0',
  major: 1,
  made: '16 Nov 2026',
}

test('a kit has the words for the engine that made the repository', () => {
  const code = (major: number) => parts({ ...kit, major }).map((part) => part.code)
  expect(code(1)).toContain(
    "export BORG_REPO='/srv/anna'\\''s backups'\nexport BORG_PASSPHRASE='bodik-kamer'\nborg list",
  )
  expect(code(1)).toContain('mkdir restored && cd restored\nborg extract ::ARCHIVE')
  expect(code(2).join('\n')).toContain('borg repo-list')
  expect(code(2)).toContain('mkdir restored && cd restored\nborg extract ARCHIVE')
})

test('a kit is one page without scripts, and names cannot break out of it', () => {
  const made = page(kit)
  expect(made).toContain('Recovery kit of letters &lt;&amp;&gt;')
  expect(made).toContain('BORG_KEY 00\nabc</pre>')
  expect(made).not.toContain('<script')
  expect(made).not.toMatch(/https?:/)
})
