import { useMutation, useQuery, useQueryClient } from '@tanstack/react-query'
import { useNavigate } from '@tanstack/react-router'
import { type FormEvent, useState } from 'react'
import { api, data, type Schemas } from '../../api/client'
import { keys } from '../../api/keys'
import { Age } from '../../ui/Age'
import { Button } from '../../ui/Button'
import { Confirm } from '../../ui/Confirm'
import { Dialog } from '../../ui/Dialog'
import { Glyph, type GlyphName } from '../../ui/Glyph'
import { Empty, Loaded, Problem } from '../../ui/States'

type Package = Schemas['PackageAnswer']
const LOOK: Record<string, [GlyphName, string]> = {
  installed: ['ok', 'installed'],
  installing: ['run', 'being installed'],
  failed: ['bad', 'failed'],
  not_installed: ['unknown', 'not installed'],
}

/** Programs on the service's machine, such as those that dump databases before a backup. */
export function Packages() {
  const query = useQuery({ queryKey: keys.packages, queryFn: () => data(api.GET('/api/packages/')) })
  const [editing, setEditing] = useState<Package | 'new' | null>(null)
  return (
    <>
      <div className="head">
        <p className="soft grow">
          Programs that backups need on the service's machine, such as database dump tools. They are installed one at a
          time.
        </p>
        <Button kind="primary" onClick={() => setEditing('new')}>
          Add a package
        </Button>
      </div>
      <Loaded query={query} height={160}>
        {({ packages }) =>
          packages.length === 0 ? (
            <Empty command="holdfast packages --help">None. Most installations need none.</Empty>
          ) : (
            <div className="stack">
              {packages.map((one) => (
                <Row key={one.id} one={one} onEdit={() => setEditing(one)} />
              ))}
            </div>
          )
        }
      </Loaded>
      {editing && <Form one={editing === 'new' ? null : editing} onClose={() => setEditing(null)} />}
    </>
  )
}

function Row({ one, onEdit }: { one: Package; onEdit: () => void }) {
  const client = useQueryClient()
  const navigate = useNavigate()
  const [deleting, setDeleting] = useState(false)
  const path = { path: { package_id: one.id } }
  const install = useMutation({
    mutationFn: () => data(api.POST('/api/packages/{package_id}/install', { params: path })),
    onSuccess: (answer) => void navigate({ to: '/operations/$id', params: { id: String(answer.job_id) } }),
  })
  const remove = useMutation({
    mutationFn: () => data(api.DELETE('/api/packages/{package_id}', { params: path })),
    onSuccess: () => void client.invalidateQueries({ queryKey: keys.packages }),
  })
  const [glyph, word] = LOOK[one.status] ?? (['unknown', one.status.replaceAll('_', ' ')] as const)
  return (
    <section className="card pad stack" aria-label={one.name}>
      <div className="row">
        <h2>{one.name}</h2>
        <span className={glyph === 'bad' ? 'evidence failed' : 'evidence soft'}>
          <Glyph name={glyph} /> {word}
          {one.installed_at && (
            <>
              {' '}
              <Age at={one.installed_at} words />
            </>
          )}
        </span>
        <span className="grow" />
        <Button acts small disabled={install.isPending} onClick={() => install.mutate()}>
          {one.status === 'installed' ? 'Install again' : 'Install'}
        </Button>
        <Button small onClick={onEdit}>
          Edit
        </Button>
        <Button small kind="plain" onClick={() => setDeleting(true)}>
          Remove…
        </Button>
      </div>
      {one.description && <p className="soft">{one.description}</p>}
      <p className="arguments mono">
        {one.install_command.map((part, index) => (
          // biome-ignore lint/suspicious/noArrayIndexKey: an argument is its place
          <code key={index}>{part}</code>
        ))}
      </p>
      {install.error && <Problem error={install.error} />}
      {deleting && (
        <Confirm
          title={`Remove ${one.name} from the list?`}
          act="Remove it"
          keep="Keep"
          busy={remove.isPending}
          error={remove.error}
          onAct={() => remove.mutate()}
          onClose={() => setDeleting(false)}
        >
          <p>The program stays installed.</p>
        </Confirm>
      )}
    </section>
  )
}

function Form({ one, onClose }: { one: Package | null; onClose: () => void }) {
  const client = useQueryClient()
  const save = useMutation({
    mutationFn: (form: FormData) => {
      const body = {
        name: String(form.get('name')).trim(),
        description: String(form.get('description')).trim() || null,
        install_command: String(form.get('command'))
          .split('\n')
          .map((line) => line.trim())
          .filter(Boolean),
      }
      return one
        ? data(api.PUT('/api/packages/{package_id}', { params: { path: { package_id: one.id } }, body }))
        : data(api.POST('/api/packages/', { body }))
    },
    onSuccess: () => {
      void client.invalidateQueries({ queryKey: keys.packages })
      onClose()
    },
  })
  const submit = (event: FormEvent<HTMLFormElement>) => {
    event.preventDefault()
    save.mutate(new FormData(event.currentTarget))
  }
  return (
    <Dialog title={one ? `Edit ${one.name}` : 'Add a package'} onClose={onClose}>
      <form className="stack" onSubmit={submit}>
        <label className="field">
          <span>Name</span>
          <input
            className="input"
            name="name"
            required
            defaultValue={one?.name ?? ''}
            placeholder="postgresql-client"
          />
        </label>
        <label className="field">
          <span>Purpose</span>
          <input className="input" name="description" defaultValue={one?.description ?? ''} />
        </label>
        <label className="field">
          <span>Command, one argument per line</span>
          <textarea
            className="input mono"
            name="command"
            rows={4}
            required
            defaultValue={one?.install_command.join('\n') ?? 'apt-get\ninstall\n--yes\n'}
          />
          <small>It runs as is, without a shell, as the service's user.</small>
        </label>
        {save.error && <Problem error={save.error} />}
        <footer>
          <Button onClick={onClose}>Cancel</Button>
          <Button acts type="submit" kind="primary" disabled={save.isPending}>
            {one ? 'Save' : 'Add'}
          </Button>
        </footer>
      </form>
    </Dialog>
  )
}
