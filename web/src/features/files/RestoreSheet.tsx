import { useMutation, useQuery } from '@tanstack/react-query'
import { Link } from '@tanstack/react-router'
import { useState } from 'react'
import { api, data, type Schemas } from '../../api/client'
import { keys } from '../../api/keys'
import { bytes, counted } from '../../lib/numbers'
import { duration, moment } from '../../lib/time'
import { statusOf } from '../../lib/words'
import { Advice } from '../../ui/Advice'
import { Bar } from '../../ui/Bar'
import { Button } from '../../ui/Button'
import { Dialog } from '../../ui/Dialog'
import { Glyph } from '../../ui/Glyph'
import { Note, Problem } from '../../ui/States'
import { useRepository } from '../repositories/Repository'
import type { Lane, Lanes } from './model'

type Overwrite = Schemas['RestoreRequest']['overwrite']

/** Where to, what if something is there, and the truth before the act. */
export function RestoreSheet({
  id,
  archive,
  lanes,
  onClose,
}: {
  id: number
  archive: Lanes['archives'][number]
  lanes: Lane[]
  onClose: () => void
}) {
  const repository = useRepository(id).data
  const [where, setWhere] = useState<'original' | 'other'>('original')
  const [folder, setFolder] = useState('')
  const [overwrite, setOverwrite] = useState<Overwrite>('skip')
  const target = repository?.execution_target ?? 'local'
  const body: Schemas['RestoreRequest'] = {
    repository_id: id,
    archive_id: archive.id,
    paths: lanes.map((lane) => (lane.path_b64 ? { path_b64: lane.path_b64 } : lane.path)) as never,
    destination: where === 'original' ? '/' : folder,
    destination_type: target as 'local',
    destination_machine_id:
      target === 'agent' ? repository?.agent_machine_id : target === 'ssh' ? repository?.ssh_connection_id : null,
    restore_layout: where === 'original' ? 'preserve_path' : 'contents_only',
    overwrite,
    dry_run: false,
  }
  const ready = where === 'original' || folder.startsWith('/')
  const preview = useQuery({
    queryKey: ['restore-preview', body],
    queryFn: () => data(api.POST('/api/restore/preview', { body })),
    enabled: ready && Boolean(repository),
    retry: false,
  })
  const start = useMutation({ mutationFn: () => data(api.POST('/api/restore/start', { body })) })
  if (start.data) return <Progress id={start.data.job_id} onClose={onClose} />
  return (
    <Dialog sheet title={`Restore ${counted(lanes.length, 'item')}`} onClose={onClose}>
      <p className="soft">
        As of <b>{moment(archive.start)}</b>:{' '}
        {lanes
          .slice(0, 3)
          .map((lane) => lane.name)
          .join(', ')}
        {lanes.length > 3 && ` and ${lanes.length - 3} more`}
      </p>
      <fieldset className="plain">
        <legend>Where</legend>
        <label className="choice">
          <input type="radio" name="where" checked={where === 'original'} onChange={() => setWhere('original')} />
          <span>Where they were</span>
        </label>
        <label className="choice">
          <input type="radio" name="where" checked={where === 'other'} onChange={() => setWhere('other')} />
          <span>In another folder</span>
        </label>
        {where === 'other' && (
          <input
            className="input mono"
            placeholder="/srv/restored"
            aria-label="Folder"
            value={folder}
            onChange={(event) => setFolder(event.target.value)}
          />
        )}
      </fieldset>
      <fieldset className="plain">
        <legend>If something is there</legend>
        {(
          [
            ['skip', 'Keep what is there'],
            ['replace', 'Replace it'],
            ['fail', 'Stop, and write nothing'],
          ] as const
        ).map(([value, words]) => (
          <label className="choice" key={value}>
            <input type="radio" name="overwrite" checked={overwrite === value} onChange={() => setOverwrite(value)} />
            <span>{words}</span>
          </label>
        ))}
      </fieldset>
      <section aria-live="polite">
        {preview.error && <Problem error={preview.error} />}
        {preview.isFetching && !preview.data && <p className="muted">Looking at what is there…</p>}
        {preview.data && <Before preview={preview.data} overwrite={overwrite} />}
      </section>
      {start.error && <Problem error={start.error} />}
      <footer>
        <Button onClick={onClose}>Cancel</Button>
        <Button
          acts
          kind={overwrite === 'replace' ? 'danger' : 'primary'}
          disabled={!ready || start.isPending}
          onClick={() => start.mutate()}
        >
          {overwrite === 'replace' ? 'Restore and replace' : 'Restore'}
        </Button>
      </footer>
    </Dialog>
  )
}

function Before({ preview, overwrite }: { preview: Schemas['RestorePreview']; overwrite: Overwrite }) {
  const conflicts = preview.conflict_count
  const there =
    overwrite === 'skip'
      ? `Already there and kept: ${counted(conflicts, 'file')}.`
      : overwrite === 'replace'
        ? `Already there and replaced: ${counted(conflicts, 'file')}.`
        : `Already there: ${counted(conflicts, 'file')}. Nothing would be written.`
  return (
    <div className="note">
      <div>
        <b>
          {counted(preview.files, 'file')}, {bytes(preview.bytes)}
        </b>
        <p>
          {!preview.conflicts_known
            ? 'Existing files are detected on the machine itself. The result lists which files were written or kept.'
            : conflicts
              ? there
              : 'No existing files are affected.'}
        </p>
        {preview.free_bytes !== null && (
          <p>
            {preview.bytes > preview.free_bytes && (
              <>
                <Glyph name="warn" />{' '}
              </>
            )}
            {bytes(preview.free_bytes)} free there
            {preview.seconds_estimate !== null && `; it takes about ${duration(preview.seconds_estimate)}`}.
          </p>
        )}
        {preview.conflicts.length > 0 && (
          <details>
            <summary>Which ones</summary>
            <ul>
              {preview.conflicts.slice(0, 100).map((one) => (
                <li key={one.path} className="mono">
                  {one.path}
                </li>
              ))}
            </ul>
          </details>
        )}
      </div>
    </div>
  )
}

function Progress({ id, onClose }: { id: number; onClose: () => void }) {
  const query = useQuery({
    queryKey: keys.operation(id),
    queryFn: () => data(api.GET('/api/operations/{operation_id}', { params: { path: { operation_id: id } } })),
    refetchInterval: (found) => (found.state.data?.completed_at ? false : 1000),
  })
  const operation = query.data
  const status = operation ? statusOf(operation.status) : null
  const result = (operation?.result ?? {}) as Record<string, unknown>
  const number = (name: string) => (typeof result[name] === 'number' ? (result[name] as number) : null)
  const files = number('restored_files') ?? number('files_restored')
  const skipped = number('skipped_files') ?? number('files_skipped')
  return (
    <Dialog sheet title="Restore" onClose={onClose}>
      {operation && status && (
        <>
          <p className="evidence">
            <Glyph name={status.glyph} />
            <b>{status.word}</b>
          </p>
          {!operation.completed_at && <Bar percent={operation.progress_percent} label="Restore" />}
          {files !== null && (
            <p>
              {counted(files, 'file')} restored{skipped ? `, ${skipped} left unchanged` : ''}.
            </p>
          )}
          {operation.error_message && (
            <Note warn title={operation.error_message}>
              <Advice error={operation.error_key} /> <span className="mono">{operation.error_key}</span>
            </Note>
          )}
        </>
      )}
      <footer>
        <Link to="/operations/$id" params={{ id: String(id) }} className="button">
          Log
        </Link>
        <Button kind="primary" onClick={onClose}>
          {operation?.completed_at ? 'Done' : 'Close; it continues'}
        </Button>
      </footer>
    </Dialog>
  )
}
