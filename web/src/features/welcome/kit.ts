/** What opens a repository when this service is gone. Made in the browser and sent nowhere. */
export interface Kit {
  name: string
  path: string
  passphrase: string
  key: string
  engine: string
  major: number
  made: string
}

export interface Part {
  title: string
  words: string
  code: string
}

const quoted = (text: string) => `'${text.replaceAll("'", `'\\''`)}'`

export function parts(kit: Kit): Part[] {
  const open = `export BORG_REPO=${quoted(kit.path)}\nexport BORG_PASSPHRASE=${quoted(kit.passphrase)}`
  const list = kit.major === 2 ? 'borg repo-list' : 'borg list'
  const extract = kit.major === 2 ? 'borg extract ARCHIVE' : 'borg extract ::ARCHIVE'
  return [
    { title: 'Where it is', words: `A repository of BorgBackup ${kit.engine}.`, code: kit.path },
    { title: 'Passphrase', words: 'Without it the backups cannot be read.', code: kit.passphrase },
    {
      title: 'List the archives',
      words: 'On any machine with BorgBackup and access to the repository:',
      code: `${open}\n${list}`,
    },
    {
      title: 'Restore',
      words: 'Files are restored into the current folder. ARCHIVE is a name from the list.',
      code: `mkdir restored && cd restored\n${extract}`,
    },
    {
      title: 'If the repository has lost its key',
      words: 'Save the key below as key.txt, then:',
      code: `borg key import ${kit.major === 2 ? '' : ':: '}key.txt`,
    },
    { title: 'Key', words: 'Protected by the passphrase. Each line counts.', code: kit.key.trimEnd() },
  ]
}

const escaped = (text: string) => text.replaceAll('&', '&amp;').replaceAll('<', '&lt;').replaceAll('>', '&gt;')

/** One file that needs nothing else to be read or printed. */
export function page(kit: Kit): string {
  const sections = parts(kit).map(
    (part) => `<h2>${escaped(part.title)}</h2>\n<p>${escaped(part.words)}</p>\n<pre>${escaped(part.code)}</pre>`,
  )
  return `<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<title>Recovery kit of ${escaped(kit.name)}</title>
<style>
body { font: 15px/1.5 system-ui, sans-serif; max-width: 46em; margin: 2em auto; padding: 0 1em; color: #13201f; background: #fff }
h1 { font-size: 22px } h2 { font-size: 15px; margin: 1.6em 0 0 } p { margin: .2em 0 .5em }
pre { font: 13px/1.5 ui-monospace, monospace; background: #f0f3f3; padding: .8em 1em; border-radius: 6px; white-space: pre-wrap; overflow-wrap: anywhere }
</style>
</head>
<body>
<h1>Recovery kit of ${escaped(kit.name)}</h1>
<p>Made ${escaped(kit.made)}. Keep it away from the machine that is backed up: on paper, or in a password manager. Anyone who has it and the repository can read every backup.</p>
${sections.join('\n')}
</body>
</html>
`
}
