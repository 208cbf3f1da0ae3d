import { Link } from '@tanstack/react-router'
import type { Schemas } from '../../api/client'
import { bytes, count } from '../../lib/numbers'

type Detail = Schemas['OperationDetail']

const NAMES: Record<string, [string, 'bytes' | 'count']> = {
  nfiles: ['Files', 'count'],
  original_size: ['Size of the files', 'bytes'],
  compressed_size: ['Compressed', 'bytes'],
  deduplicated_size: ['New in the repository', 'bytes'],
  restored_files: ['Files restored', 'count'],
  restored_size: ['Bytes restored', 'bytes'],
  skipped_files: ['Left unchanged', 'count'],
  files_proven: ['Files read back', 'count'],
  files_checked: ['Files chosen', 'count'],
  bytes_proven: ['Bytes read back', 'bytes'],
  bytes_checked: ['Bytes chosen', 'bytes'],
  freed_bytes: ['Freed', 'bytes'],
  kept: ['Archives kept', 'count'],
  pruned: ['Archives removed', 'count'],
  kept_count: ['Archives kept', 'count'],
  pruned_count: ['Archives removed', 'count'],
}

/** What was to be read back says something only where not all of it was. */
const SAME: Record<string, string> = { files_checked: 'files_proven', bytes_checked: 'bytes_proven' }

/** What came of it: only numbers that are known. */
export function Outcome({ operation }: { operation: Detail }) {
  const stats = (operation.result?.stats ?? {}) as Record<string, unknown>
  const source = { ...stats, ...(operation.detail ?? {}), ...(operation.result ?? {}) } as Record<string, unknown>
  const shown = Object.entries(NAMES).flatMap(([name, [words, unit]]) => {
    const value = source[name]
    const isRepeated = value === source[SAME[name] ?? '']
    return typeof value === 'number' && !isRepeated
      ? [{ name, words, text: unit === 'bytes' ? bytes(value) : count(value) }]
      : []
  })
  if (shown.length === 0 && !operation.archive_name) return null
  return (
    <dl className="card pad facts-list">
      {operation.archive_name && (
        <div>
          <dt>Archive</dt>
          <dd>
            {operation.repository_id && operation.kind === 'backup' ? (
              <Link to="/files/$id" params={{ id: String(operation.repository_id) }} className="link">
                {operation.archive_name}
              </Link>
            ) : (
              operation.archive_name
            )}
          </dd>
        </div>
      )}
      {shown.map((one) => (
        <div key={one.name}>
          <dt>{one.words}</dt>
          <dd className="number">{one.text}</dd>
        </div>
      ))}
    </dl>
  )
}
