import { useMutation, useQuery } from '@tanstack/react-query'
import { Link, useNavigate } from '@tanstack/react-router'
import { type FormEvent, useState } from 'react'
import { api, data, Refused, type Schemas } from '../../api/client'
import { keys } from '../../api/keys'
import { useMe } from '../../layout/Shell'
import { bytes, count } from '../../lib/numbers'
import { Age } from '../../ui/Age'
import { Button } from '../../ui/Button'
import { Confirm } from '../../ui/Confirm'
import { Dialog } from '../../ui/Dialog'
import { Empty, Loaded, Note, Problem } from '../../ui/States'
import { useInvalidate, useRepository, useRepositoryId } from './Repository'

type Found = Schemas['MirrorAnswer']
const MODES: Record<Found['mode'], string> = {
  after_backup: 'after each backup',
  interval: 'at an interval',
  manual: 'only manually',
}
const COMPARED: Record<string, string> = {
  hashes: 'every file compared by its hash',
  sizes: 'every file compared by its size',
  sample: 'sizes compared, plus a sample read back',
}

/** A second copy of the repository elsewhere: is the copy a copy? */
export function Mirror() {
  const id = useRepositoryId()
  const { data: me } = useMe()
  const [editing, setEditing] = useState(false)
  const query = useQuery({
    queryKey: keys.mirror(id),
    staleTime: 0,
    queryFn: async () => {
      try {
        return await data(
          api.GET('/api/repositories/{repository_id}/mirror', { params: { path: { repository_id: id } } }),
        )
      } catch (error) {
        if (error instanceof Refused && error.status === 404) return null
        throw error
      }
    },
  })
  return (
    <>
      <Loaded query={query} height={200}>
        {(mirror) =>
          mirror === null ? (
            <Empty command={`holdfast mirror --help`}>
              <p>No mirror. If this location is lost, so is the repository.</p>
              {me?.role === 'admin' && (
                <p className="more">
                  <Button kind="primary" onClick={() => setEditing(true)}>
                    Add a mirror
                  </Button>
                </p>
              )}
            </Empty>
          ) : (
            <Shown mirror={mirror} admin={me?.role === 'admin'} onEdit={() => setEditing(true)} />
          )
        }
      </Loaded>
      {editing && <Form id={id} mirror={query.data ?? null} onClose={() => setEditing(false)} />}
    </>
  )
}

function Shown({ mirror, admin, onEdit }: { mirror: Found; admin: boolean; onEdit: () => void }) {
  const navigate = useNavigate()
  const refresh = useInvalidate(mirror.repository_id)
  const [dialog, setDialog] = useState<'hydrate' | 'remove' | null>(null)
  const path = { path: { repository_id: mirror.repository_id } }
  const open = (answer: { job_id: number }) =>
    void navigate({ to: '/operations/$id', params: { id: String(answer.job_id) } })
  const sync = useMutation({
    mutationFn: () =>
      data(
        api.POST('/api/repositories/{repository_id}/mirror/sync', { params: path, body: { override_sanity: false } }),
      ),
    onSuccess: open,
  })
  const remove = useMutation({
    mutationFn: () => data(api.DELETE('/api/repositories/{repository_id}/mirror', { params: path })),
    onSuccess: () => {
      setDialog(null)
      refresh()
    },
  })
  return (
    <div className="stack">
      <div className="row">
        <h2 className="grow mono wrap">
          {mirror.remote}:{mirror.path}
        </h2>
        <Button acts kind="primary" disabled={sync.isPending} onClick={() => sync.mutate()}>
          Sync now
        </Button>
        {admin && (
          <>
            <Button onClick={onEdit}>Edit</Button>
            <Button onClick={() => setDialog('hydrate')}>Hydrate…</Button>
            <Button kind="plain" onClick={() => setDialog('remove')}>
              Remove…
            </Button>
          </>
        )}
      </div>
      <dl className="card pad facts-list">
        <Fact name="Last sync">{mirror.last_sync_at ? <Age at={mirror.last_sync_at} words /> : 'never'}</Fact>
        <Fact name="Compared">
          {mirror.verified_at ? (
            <>
              <Age at={mirror.verified_at} words />
              {mirror.verified_by && <span className="muted"> {COMPARED[mirror.verified_by]}</span>}
            </>
          ) : (
            'never'
          )}
        </Fact>
        <Fact name="There">
          {mirror.mirrored_bytes === null
            ? 'unknown'
            : `${bytes(mirror.mirrored_bytes)}, ${count(mirror.mirrored_files ?? 0)} files`}
        </Fact>
        <Fact name="Runs">
          {mirror.mode === 'interval' && mirror.interval_minutes
            ? `every ${mirror.interval_minutes} minutes`
            : MODES[mirror.mode]}
        </Fact>
        <Fact name="Stops if it shrinks by">{mirror.shrink_threshold_percent} %</Fact>
      </dl>
      {sync.error && <Problem error={sync.error} />}
      {dialog === 'hydrate' && <Hydrate mirror={mirror} onClose={() => setDialog(null)} onStarted={open} />}
      {dialog === 'remove' && (
        <Confirm
          title="Remove the mirror?"
          act="Remove it"
          keep="Keep"
          busy={remove.isPending}
          error={remove.error}
          onAct={() => remove.mutate()}
          onClose={() => setDialog(null)}
        >
          <p>The copy at {mirror.remote} is kept, but no longer updated.</p>
        </Confirm>
      )}
    </div>
  )
}

function Fact({ name, children }: { name: string; children: React.ReactNode }) {
  return (
    <div>
      <dt>{name}</dt>
      <dd>{children}</dd>
    </div>
  )
}

/** Makes a repository from the mirror, in another folder. */
function Hydrate({
  mirror,
  onClose,
  onStarted,
}: {
  mirror: Found
  onClose: () => void
  onStarted: (answer: { job_id: number }) => void
}) {
  const repository = useRepository(mirror.repository_id).data
  const start = useMutation({
    mutationFn: (form: FormData) =>
      data(
        api.POST('/api/repositories/{repository_id}/mirror/hydrate', {
          params: { path: { repository_id: mirror.repository_id } },
          body: { destination: String(form.get('destination')), confirm: form.get('confirm') === 'on' },
        }),
      ),
    onSuccess: onStarted,
  })
  return (
    <Dialog title="Hydrate from the mirror" onClose={onClose}>
      <form
        className="stack"
        onSubmit={(event) => {
          event.preventDefault()
          start.mutate(new FormData(event.currentTarget))
        }}
      >
        <p>
          Copies the mirror at {mirror.remote}
          {mirror.last_sync_at && (
            <>
              , last synced <Age at={mirror.last_sync_at} words />,
            </>
          )}{' '}
          to a folder on the service's machine, as a complete repository.
        </p>
        <label className="field">
          <span>Folder</span>
          <input
            className="input mono"
            name="destination"
            required
            defaultValue={`${repository?.path ?? ''}-hydrated`}
          />
        </label>
        <label className="choice">
          <input type="checkbox" name="confirm" />
          <span>Existing files there may be replaced</span>
        </label>
        {start.error && <Problem error={start.error} />}
        <footer>
          <Button onClick={onClose}>Cancel</Button>
          <Button acts type="submit" kind="danger" disabled={start.isPending}>
            Hydrate
          </Button>
        </footer>
      </form>
    </Dialog>
  )
}

function Form({ id, mirror, onClose }: { id: number; mirror: Found | null; onClose: () => void }) {
  const refresh = useInvalidate(id)
  const repository = useRepository(id).data
  const remotes = useQuery({ queryKey: keys.remotes, queryFn: () => data(api.GET('/api/rclone/remotes')) })
  const [mode, setMode] = useState<Found['mode']>(mirror?.mode ?? 'after_backup')
  const save = useMutation({
    mutationFn: (form: FormData) =>
      data(
        api.PUT('/api/repositories/{repository_id}/mirror', {
          params: { path: { repository_id: id } },
          body: {
            remote_id: Number(form.get('remote')),
            path: String(form.get('path')),
            mode,
            interval_minutes: mode === 'interval' ? Number(form.get('interval')) : null,
            shrink_threshold_percent: Number(form.get('shrink')),
            verify: form.get('verify') === 'on',
            verify_sample: mirror?.verify_sample ?? 0,
            bandwidth_limit_kib: form.get('limit') ? Number(form.get('limit')) : null,
          },
        }),
      ),
    onSuccess: () => {
      refresh()
      onClose()
    },
  })
  const submit = (event: FormEvent<HTMLFormElement>) => {
    event.preventDefault()
    save.mutate(new FormData(event.currentTarget))
  }
  return (
    <Dialog title={mirror ? 'Edit the mirror' : 'Add a mirror'} onClose={onClose}>
      <Loaded query={remotes} height={200}>
        {(found) =>
          found.remotes.length === 0 ? (
            <Note title="No remotes yet.">
              A mirror goes to a remote: an object store, a drive, another server.{' '}
              <Link to="/settings/remotes" className="link">
                Add one
              </Link>
            </Note>
          ) : (
            <form className="stack" onSubmit={submit}>
              <label className="field">
                <span>Remote</span>
                <select className="input" name="remote" defaultValue={mirror?.remote_id}>
                  {found.remotes.map((one) => (
                    <option key={one.id} value={one.id}>
                      {one.name} ({one.provider})
                    </option>
                  ))}
                </select>
              </label>
              <label className="field">
                <span>Path on the remote</span>
                <input
                  className="input mono"
                  name="path"
                  required
                  defaultValue={mirror?.path ?? `holdfast/${repository?.name ?? ''}`}
                />
              </label>
              <label className="field">
                <span>When</span>
                <select
                  className="input"
                  value={mode}
                  onChange={(event) => setMode(event.target.value as Found['mode'])}
                >
                  {Object.entries(MODES).map(([value, words]) => (
                    <option key={value} value={value}>
                      {words}
                    </option>
                  ))}
                </select>
              </label>
              {mode === 'interval' && (
                <label className="field short">
                  <span>Minutes between syncs</span>
                  <input
                    className="input"
                    type="number"
                    min={5}
                    name="interval"
                    required
                    defaultValue={mirror?.interval_minutes ?? 1440}
                  />
                </label>
              )}
              <div className="row">
                <label className="field">
                  <span>Stop if it shrinks by %</span>
                  <input
                    className="input"
                    type="number"
                    min={1}
                    max={100}
                    name="shrink"
                    required
                    defaultValue={mirror?.shrink_threshold_percent ?? 50}
                  />
                </label>
                <label className="field">
                  <span>Limit in KiB/s</span>
                  <input
                    className="input"
                    type="number"
                    min={1}
                    name="limit"
                    defaultValue={mirror?.bandwidth_limit_kib ?? ''}
                    placeholder="no limit"
                  />
                </label>
              </div>
              <label className="choice">
                <input type="checkbox" name="verify" defaultChecked={mirror?.verify ?? true} />
                <span>Verify after each sync</span>
              </label>
              {save.error && <Problem error={save.error} />}
              <footer>
                <Button onClick={onClose}>Cancel</Button>
                <Button acts type="submit" kind="primary" disabled={save.isPending}>
                  {mirror ? 'Save' : 'Add'}
                </Button>
              </footer>
            </form>
          )
        }
      </Loaded>
    </Dialog>
  )
}
