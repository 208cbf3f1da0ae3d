import { refusal } from '../../api/client'
import * as session from '../../api/session'
import { save } from '../../lib/save'

interface Named {
  path: string
  path_b64?: string | null
}

function address(repository: number, archive: number, name: Named, kind: 'file' | 'folder'): string {
  const query = new URLSearchParams(name.path_b64 ? { path_b64: name.path_b64 } : { path: name.path })
  if (kind === 'folder') query.set('format', 'zip')
  return `/api/repositories/${repository}/archives/${archive}/${kind === 'file' ? 'files' : 'download'}?${query}`
}

async function fetched(url: string): Promise<Response> {
  const state = session.current()
  const answer = await fetch(url, { headers: state.name === 'in' ? { Authorization: `Bearer ${state.token}` } : {} })
  if (!answer.ok) throw await refusal(answer)
  return answer
}

/** Save a file, or a folder as a zip. */
export async function download(
  repository: number,
  archive: number,
  name: Named,
  kind: 'file' | 'folder',
): Promise<void> {
  const answer = await fetched(address(repository, archive, name, kind))
  const last = name.path.split('/').filter(Boolean).at(-1) ?? 'archive'
  save(kind === 'file' ? last : `${last}.zip`, await answer.blob())
}

export async function content(repository: number, archive: number, name: Named): Promise<Blob> {
  return (await fetched(address(repository, archive, name, 'file'))).blob()
}
