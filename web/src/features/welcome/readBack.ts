import { api, data, type Schemas } from '../../api/client'
import { content } from '../files/download'

type Entry = Schemas['BrowseEntry']

export interface ReadBack {
  path: string
  size: number
  text: string | null
}

const MOST_FOLDERS = 40
const MOST_BYTES = 1_000_000
const SHOWN = 600
const READABLE = /\.(txt|md|conf|cfg|ini|json|ya?ml|toml|csv|html?|css|sh|py|log|xml|list)$/i

/** Read one file of the archive back from the repository: a small one, with text in it if there is one. */
export async function readBack(repository: number, archive: number): Promise<ReadBack | null> {
  const found = await someFile(repository, archive)
  if (!found) return null
  const bytes = new Uint8Array(await (await content(repository, archive, found)).arrayBuffer())
  return { path: found.path, size: bytes.length, text: textOf(bytes) }
}

async function someFile(repository: number, archive: number): Promise<Entry | null> {
  const folders: Pick<Entry, 'path' | 'path_b64'>[] = [{ path: '', path_b64: null }]
  let second: Entry | null = null
  for (let looked = 0; looked < MOST_FOLDERS; looked += 1) {
    const folder = folders.shift()
    if (!folder) break
    const query = folder.path_b64 ? { path_b64: folder.path_b64 } : { path: folder.path }
    const { entries } = await data(
      api.GET('/api/repositories/{repository_id}/archives/{archive_id}/browse', {
        params: { path: { repository_id: repository, archive_id: archive }, query: { ...query, limit: 500 } },
      }),
    )
    const files = entries.filter((one) => one.type === '-' && (one.size ?? 0) <= MOST_BYTES)
    const readable = files.find((one) => (one.size ?? 0) > 0 && READABLE.test(one.name))
    if (readable) return readable
    second ??= files.find((one) => (one.size ?? 0) > 0) ?? files[0] ?? null
    folders.push(...entries.filter((one) => one.type === 'd'))
  }
  return second
}

export function textOf(bytes: Uint8Array): string | null {
  try {
    const text = new TextDecoder('utf-8', { fatal: true }).decode(bytes)
    // biome-ignore lint/suspicious/noControlCharactersInRegex: they distinguish text from other data
    return /[\u0000-\u0008\u000e-\u001f]/.test(text) ? null : text.slice(0, SHOWN)
  } catch {
    return null
  }
}
