import { useMutation, useQueryClient } from '@tanstack/react-query'
import { useNavigate } from '@tanstack/react-router'
import { type FormEvent, useState } from 'react'
import { api, data } from '../../api/client'
import { generated } from '../../lib/passphrase'
import { Button } from '../../ui/Button'
import { Note, Problem } from '../../ui/States'
import { FolderField, lines, SourcesField } from '../machines/PathFields'
import { opener, placeOf, useMachines } from '../machines/place'

/** A new repository on any machine, or one that is already there. */
export function Create({ importing = false }: { importing?: boolean }) {
  const navigate = useNavigate()
  const client = useQueryClient()
  const [passphrase, setPassphrase] = useState(importing ? '' : generated)
  const [machine, setMachine] = useState('')
  const [path, setPath] = useState('')
  const [sources, setSources] = useState('')
  const machines = useMachines().data?.machines.filter((one) => one.status !== 'revoked') ?? []
  const place = placeOf(machines, machine)
  const create = useMutation({
    mutationFn: (form: FormData) => {
      const body = {
        name: String(form.get('name')),
        path: path.trim(),
        ...opener(place),
        passphrase: passphrase || null,
        source_paths: lines(sources),
        exclude_patterns: lines(String(form.get('excludes') ?? '')),
        engine_version: Number(form.get('engine')) as 1 | 2,
      }
      if (importing) return data(api.POST('/api/repositories/import', { body: body as never }))
      const encryption = body.engine_version === 2 ? 'aes256-ocb' : 'repokey-blake2'
      return data(api.POST('/api/repositories/', { body: { ...body, encryption } as never }))
    },
    onSuccess: (repository) => {
      void client.invalidateQueries()
      void navigate({ to: '/repositories/$id', params: { id: String(repository.id) } })
    },
  })
  const submit = (event: FormEvent<HTMLFormElement>) => {
    event.preventDefault()
    create.mutate(new FormData(event.currentTarget))
  }
  return (
    <main>
      <h1 className="gap">{importing ? 'Import a repository' : 'Create a repository'}</h1>
      <form className="card pad stack form" onSubmit={submit}>
        <label className="field">
          <span>Name</span>
          <input className="input" name="name" required placeholder="web-server" />
        </label>
        {machines.length > 0 && (
          <label className="field">
            <span>Machine</span>
            <select className="input" value={machine} onChange={(event) => setMachine(event.target.value)}>
              <option value="">The service's own machine</option>
              {machines.map((one) => (
                <option key={one.key} value={one.key}>
                  {one.name} ({one.connection_type === 'agent' ? `agent, ${one.status}` : 'by ssh'})
                </option>
              ))}
            </select>
            <small>Its files are backed up by its own engine.</small>
          </label>
        )}
        <FolderField
          label={importing ? 'Where it is' : 'Where to create it'}
          place={place}
          value={path}
          placeholder="/srv/backups/web-server"
          onChange={setPath}
        >
          A folder of {place.name}, as seen from that machine.
        </FolderField>
        <SourcesField label="What to back up, one path per line" place={place} value={sources} onChange={setSources} />
        <label className="field">
          <span>What to exclude</span>
          <textarea className="input mono" name="excludes" rows={2} placeholder="**/.cache" />
        </label>
        <label className="field">
          <span>Engine</span>
          <select className="input" name="engine" defaultValue="1">
            <option value="1">BorgBackup 1 (stable)</option>
            <option value="2">BorgBackup 2 (beta)</option>
          </select>
        </label>
        <label className="field">
          <span>Passphrase</span>
          <input
            className="input mono"
            value={passphrase}
            onChange={(event) => setPassphrase(event.target.value)}
            autoComplete="off"
            required={!importing}
          />
          {!importing && (
            <small>
              Generated in your browser. Write it down now and keep it away from this machine: without it, the backups
              cannot be read.
            </small>
          )}
        </label>
        {!importing && (
          <Note warn>If this machine is lost, the passphrase is the one thing Holdfast cannot recover for you.</Note>
        )}
        {create.error && <Problem error={create.error} />}
        <div>
          <Button acts type="submit" kind="primary" disabled={create.isPending}>
            {create.isPending ? 'Working…' : importing ? 'Import it' : 'I have written it down: create'}
          </Button>
        </div>
      </form>
    </main>
  )
}
