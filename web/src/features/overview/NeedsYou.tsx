import { useMutation, useQueryClient } from '@tanstack/react-query'
import { Link, useNavigate } from '@tanstack/react-router'
import type { ReactNode } from 'react'
import { api, data, type Schemas } from '../../api/client'
import { keys } from '../../api/keys'
import { useMe } from '../../layout/Shell'
import { Age } from '../../ui/Age'
import { Button } from '../../ui/Button'
import { Glyph } from '../../ui/Glyph'
import { Problem } from '../../ui/States'

type Item = Schemas['Attention']
const SHOWN = 6

export function NeedsYou({ items }: { items: Item[] }) {
  const shown = items.slice(0, SHOWN)
  return (
    <section aria-label="Needs attention">
      <div className="head">
        <h2>Needs attention</h2>
        <span className="muted">{items.length || ''}</span>
        {items.length > SHOWN && (
          <Link to="/repositories" className="end">
            All
          </Link>
        )}
      </div>
      <div className="card needs">
        {shown.length === 0 && (
          <div className="needs-row">
            <Glyph name="ok" />
            <div>
              <b>Nothing needs attention.</b>
              <p>Backups are recent, and files were read back to verify them.</p>
            </div>
          </div>
        )}
        {shown.map((item) => (
          <Need key={item.key} item={item} />
        ))}
      </div>
    </section>
  )
}

export function Need({ item }: { item: Item }) {
  const { title, detail } = words(item)
  return (
    <div className="needs-row">
      <Glyph name={item.severity === 'critical' ? 'bad' : item.severity === 'warning' ? 'warn' : 'unknown'} />
      <div>
        <Link to="/repositories/$id" params={{ id: String(item.repository_id) }}>
          <b>{item.repository}</b>: {title}
        </Link>
        <p>{detail}</p>
      </div>
      <Act item={item} />
    </div>
  )
}

function Act({ item }: { item: Item }) {
  const navigate = useNavigate()
  const { data: me } = useMe()
  const may = me !== undefined && me.role !== 'viewer'
  const client = useQueryClient()
  const start = useMutation({
    mutationFn: () =>
      item.act === 'prove'
        ? data(
            api.POST('/api/repositories/{repository_id}/restore-check', {
              params: { path: { repository_id: item.repository_id } },
              body: {},
            }),
          )
        : data(api.POST('/api/backup/start', { body: { repository: item.path } })),
    onSuccess: (answer) => {
      void client.invalidateQueries({ queryKey: keys.overview })
      void navigate({ to: '/operations/$id', params: { id: String(answer.job_id) } })
    },
  })
  return (
    <div className="row acts">
      {item.operation_id && (
        <Link to="/operations/$id" params={{ id: String(item.operation_id) }} className="button small">
          Log
        </Link>
      )}
      {may && (item.act === 'prove' || item.act === 'back_up') && (
        <Button acts small kind="primary" disabled={start.isPending} onClick={() => start.mutate()}>
          {item.act === 'prove' ? 'Prove it now' : 'Back up now'}
        </Button>
      )}
      {may && item.reason === 'backup_failed' && (
        <Button acts small kind="primary" disabled={start.isPending} onClick={() => start.mutate()}>
          Try again
        </Button>
      )}
      {item.act === 'open' && (
        <Link to="/repositories/$id" params={{ id: String(item.repository_id) }} className="button small primary">
          Open
        </Link>
      )}
      {start.error && <Problem error={start.error} />}
    </div>
  )
}

function words(item: Item): { title: ReactNode; detail: ReactNode } {
  const since = item.since ? <Age at={item.since} words /> : null
  const last = item.last_backup ? (
    <>
      The backup of <Age at={item.last_backup} words /> can be restored.
    </>
  ) : (
    'No backup to restore.'
  )
  switch (item.reason) {
    case 'backup_failed':
      return {
        title: <>the backup failed {since}</>,
        detail: (
          <>
            {item.message} {last}
          </>
        ),
      }
    case 'backup_never':
      return { title: 'never backed up', detail: 'Nothing can be restored yet.' }
    case 'backup_overdue':
      return {
        title: (
          <>
            last backed up {since}, {item.threshold_days} days allowed
          </>
        ),
        detail: last,
      }
    case 'restore_check_never':
      return { title: 'no restore verified yet', detail: 'Read some files back to verify that restores work.' }
    case 'restore_check_overdue':
      return {
        title: (
          <>
            restore last verified {since}, {item.threshold_days} days allowed
          </>
        ),
        detail: 'Read some files back to verify that restores work.',
      }
    case 'restore_check_failed':
      return { title: <>reading files back failed {since}</>, detail: item.message }
    case 'check_failed':
      return { title: <>the check failed {since}</>, detail: item.message }
    case 'damaged':
      return { title: <>damage found {since}</>, detail: <>{item.message} Undamaged files can be restored.</> }
    case 'shut':
      return { title: <>could not be opened {since}</>, detail: item.message }
    case 'setup_failed':
      return { title: 'could not be created', detail: 'Its settings are kept. Check the log, then try again.' }
    case 'setup_pending':
      return { title: 'is being set up', detail: 'It can be used once its machine has created it.' }
    case 'never_synced':
      return {
        title: 'its archives have not been read yet',
        detail: 'Run a backup or a resync to read them.',
      }
    case 'evidence_old':
      return { title: <>last checked {since}</>, detail: 'Its status may be out of date.' }
    default:
      return { title: item.reason.replaceAll('_', ' '), detail: item.message }
  }
}
