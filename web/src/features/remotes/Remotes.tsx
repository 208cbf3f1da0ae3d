import { useMutation, useQuery, useQueryClient } from '@tanstack/react-query'
import { useState } from 'react'
import { api, data, type Schemas } from '../../api/client'
import { keys } from '../../api/keys'
import { counted } from '../../lib/numbers'
import { Button } from '../../ui/Button'
import { Confirm } from '../../ui/Confirm'
import { Glyph, type GlyphName } from '../../ui/Glyph'
import { Empty, Loaded, Problem } from '../../ui/States'
import { RemoteForm } from './RemoteForm'

type Remote = Schemas['RemoteAnswer']
const VERDICT: Record<string, GlyphName> = { ok: 'ok', failed: 'bad', skipped: 'unknown' }
const STEP: Record<string, string> = {
  program: 'rclone is installed',
  configuration: 'its settings are valid',
  reach: 'the remote responds',
  credentials: 'it accepts the credentials',
  write: 'a file can be written',
  read: 'and read back',
  delete: 'and removed',
}

export function useRemotes() {
  return useQuery({ queryKey: keys.remotes, queryFn: () => data(api.GET('/api/rclone/remotes')) })
}

/** Places in the cloud, by rclone: for mirrors, and for repositories of engine 2. */
export function Remotes() {
  const query = useRemotes()
  const [editing, setEditing] = useState<Remote | 'new' | null>(null)
  return (
    <>
      <div className="head">
        <p className="soft grow">
          Storage reached with rclone, such as object stores, drives and sftp, for mirrors of repositories.
        </p>
        <Button kind="primary" onClick={() => setEditing('new')}>
          Add remote
        </Button>
      </div>
      <Loaded query={query} height={160}>
        {({ remotes }) =>
          remotes.length === 0 ? (
            <Empty command="holdfast remotes --help">
              No remotes yet. A second copy elsewhere survives the loss of this site.
            </Empty>
          ) : (
            <div className="stack">
              {remotes.map((one) => (
                <Row key={one.id} remote={one} onEdit={() => setEditing(one)} />
              ))}
            </div>
          )
        }
      </Loaded>
      {editing && <RemoteForm remote={editing === 'new' ? null : editing} onClose={() => setEditing(null)} />}
    </>
  )
}

function Row({ remote, onEdit }: { remote: Remote; onEdit: () => void }) {
  const client = useQueryClient()
  const [deleting, setDeleting] = useState(false)
  const path = { path: { remote_id: remote.id } }
  const test = useMutation({
    mutationFn: () => data(api.POST('/api/rclone/remotes/{remote_id}/test', { params: path, body: { path: '' } })),
  })
  const remove = useMutation({
    mutationFn: () => data(api.DELETE('/api/rclone/remotes/{remote_id}', { params: path })),
    onSuccess: () => void client.invalidateQueries({ queryKey: keys.remotes }),
  })
  return (
    <section className="card pad stack" aria-label={remote.name}>
      <div className="row">
        <h2>{remote.name}</h2>
        <span className="tag">{remote.provider}</span>
        <span className="soft">
          {remote.repository_ids.length
            ? `used by ${counted(remote.repository_ids.length, 'repository', 'repositories')}`
            : 'not used yet'}
        </span>
        <span className="grow" />
        <Button acts small disabled={test.isPending} onClick={() => test.mutate()}>
          {test.isPending ? 'Testing…' : 'Test'}
        </Button>
        <Button small onClick={onEdit}>
          Edit
        </Button>
        <Button small kind="plain" onClick={() => setDeleting(true)}>
          Delete…
        </Button>
      </div>
      {Object.keys(remote.options).length > 0 && (
        <p className="soft mono wrap">
          {Object.entries(remote.options)
            .map(([name, value]) => `${name}=${value}`)
            .join('  ')}
        </p>
      )}
      {test.data && (
        <ol className="plain-list" role="status">
          {test.data.steps.map((step) => (
            <li key={step.step} className="evidence wrap">
              <Glyph name={VERDICT[step.verdict] ?? 'unknown'} />
              <span className="wrap">
                {STEP[step.step] ?? step.step}
                {step.message && <span className="soft">: {step.message}</span>}
              </span>
            </li>
          ))}
        </ol>
      )}
      {test.error && <Problem error={test.error} />}
      {deleting && (
        <Confirm
          title={`Delete ${remote.name}?`}
          act="Delete remote"
          keep="Keep"
          busy={remove.isPending}
          error={remove.error}
          onAct={() => remove.mutate()}
          onClose={() => setDeleting(false)}
        >
          <p>Files stored there are kept. Its credentials are deleted.</p>
        </Confirm>
      )}
    </section>
  )
}
