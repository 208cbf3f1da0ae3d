import { refusal } from '../../api/client'
import { save } from '../../api/downloads'
import * as session from '../../api/session'

interface Named {
  path: string
  path_b64?: string | null
}

/** Save one file as it is, or anything else as a zip. */
export function download(repository: number, archive: number, names: Named[], kind: 'file' | 'folder'): Promise<void> {
  const paths = names.map((name) => (name.path_b64 ? { path_b64: name.path_b64 } : name.path))
  const format = kind === 'file' && paths.length === 1 ? 'file' : 'zip'
  return save({ repository_id: repository, archive_id: archive, paths, format })
}

export async function content(repository: number, archive: number, name: Named): Promise<Blob> {
  const state = session.current()
  const query = new URLSearchParams(name.path_b64 ? { path_b64: name.path_b64 } : { path: name.path })
  const answer = await fetch(`/api/repositories/${repository}/archives/${archive}/files?${query}`, {
    headers: state.name === 'in' ? { Authorization: `Bearer ${state.token}` } : {},
  })
  if (!answer.ok) throw await refusal(answer)
  return answer.blob()
}
