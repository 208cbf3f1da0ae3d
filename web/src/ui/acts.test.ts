import { expect, test } from 'vitest'

const pages = import.meta.glob<string>('../**/*.tsx', { query: '?raw', import: 'default', eager: true })
/** Pages before the login have no connection to lose; a form that only fills in another needs no service. */
const WITHOUT = ['../features/access/Login.tsx', '../features/welcome/What.tsx']

/** The opening tags of buttons, each as written. */
function buttons(text: string): string[] {
  return [...text.matchAll(/<Button\b/g)].map((match) => {
    let depth = 0
    let end = match.index
    for (; end < text.length; end++) {
      if (text[end] === '{') depth++
      else if (text[end] === '}') depth--
      else if (text[end] === '>' && depth === 0) break
    }
    return text.slice(match.index, end + 1)
  })
}

test('every button that sends something to the service waits while it is away', () => {
  const missing = Object.entries(pages)
    .filter(([path]) => !WITHOUT.includes(path))
    .flatMap(([path, text]) =>
      buttons(text)
        .filter((tag) => /\.mutate\(|type="submit"|\bonAct\b/.test(tag) && !/<Button\s+acts\b/.test(tag))
        .map((tag) => `${path}: ${tag}`),
    )
  expect(missing).toEqual([])
})
