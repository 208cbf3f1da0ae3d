import { useMutation } from '@tanstack/react-query'
import { useNavigate } from '@tanstack/react-router'
import { type FormEvent, useState } from 'react'
import { api, data, type Schemas } from '../../api/client'
import { Button } from '../../ui/Button'
import { Dialog } from '../../ui/Dialog'
import { Note, Problem } from '../../ui/States'
import { lines, SourcesField } from '../machines/PathFields'
import { placeOfRepository } from '../machines/place'
import { useInvalidate, useRepository, useRepositoryId } from './Repository'

type Repository = Schemas['RepositoryAnswer']
export function RepositorySettings() {
  const repository = useRepository(useRepositoryId()).data
  if (!repository) return null
  if (!repository.actions.includes('change'))
    return (
      <Note title="Only admins can change the settings of this repository.">
        Admins choose what is backed up, what is excluded, and whether Holdfast manages it.
      </Note>
    )
  return <Form key={repository.updated_at} repository={repository} />
}

function Form({ repository }: { repository: Repository }) {
  const refresh = useInvalidate(repository.id)
  const [forgetting, setForgetting] = useState(false)
  const [sources, setSources] = useState(repository.source_paths.join('\n'))
  const place = placeOfRepository(repository)
  const save = useMutation({
    mutationFn: (body: Schemas['RepositoryChange']) =>
      data(api.PUT('/api/repositories/{repository_id}', { params: { path: { repository_id: repository.id } }, body })),
    onSuccess: refresh,
  })
  const submit = (event: FormEvent<HTMLFormElement>) => {
    event.preventDefault()
    const form = new FormData(event.currentTarget)
    save.mutate({
      name: String(form.get('name')),
      source_paths: lines(sources),
      exclude_patterns: lines(String(form.get('excludes') ?? '')),
      compression: String(form.get('compression')),
      index_mode: String(form.get('index')) as 'full',
    } as Schemas['RepositoryChange'])
  }
  return (
    <div className="stack">
      <form className="card pad stack" onSubmit={submit}>
        <label className="field">
          <span>Name</span>
          <input className="input" name="name" defaultValue={repository.name} required />
        </label>
        <SourcesField label="What to back up, one path per line" place={place} value={sources} onChange={setSources} />
        <label className="field">
          <span>What to exclude, one pattern per line</span>
          <textarea
            className="input mono"
            name="excludes"
            rows={3}
            defaultValue={repository.exclude_patterns.join('\n')}
          />
          <small>The engine's patterns, such as **/.cache or *.tmp</small>
        </label>
        <div className="row">
          <label className="field">
            <span>Compression</span>
            <input className="input" name="compression" defaultValue={repository.compression} />
          </label>
          <label className="field">
            <span>Index</span>
            <select className="input" name="index" defaultValue={repository.index_mode}>
              <option value="full">Archives and every file in them</option>
              <option value="archives">Archives only</option>
              <option value="off">Off</option>
            </select>
          </label>
        </div>
        {save.error && <Problem error={save.error} />}
        {save.isSuccess && <p className="soft">Saved.</p>}
        <div>
          <Button acts type="submit" kind="primary" disabled={save.isPending}>
            Save
          </Button>
        </div>
      </form>
      <section className="card pad row">
        <div className="grow">
          <h2>Forget this repository</h2>
          <p className="soft">Holdfast stops managing it. The repository and all its archives are kept.</p>
        </div>
        <Button onClick={() => setForgetting(true)}>Forget…</Button>
      </section>
      {forgetting && <Forget repository={repository} onClose={() => setForgetting(false)} />}
    </div>
  )
}

function Forget({ repository, onClose }: { repository: Repository; onClose: () => void }) {
  const navigate = useNavigate()
  const forget = useMutation({
    mutationFn: () =>
      data(api.DELETE('/api/repositories/{repository_id}', { params: { path: { repository_id: repository.id } } })),
    onSuccess: () => void navigate({ to: '/repositories' }),
  })
  return (
    <Dialog title={`Forget ${repository.name}?`} onClose={onClose}>
      <p>Nothing is deleted at {repository.path}. It can be imported again at any time, with its passphrase.</p>
      <Note warn>Holdfast deletes its stored passphrase. Make sure you have it elsewhere.</Note>
      {forget.error && <Problem error={forget.error} />}
      <footer>
        <Button onClick={onClose}>Keep it</Button>
        <Button acts kind="danger" disabled={forget.isPending} onClick={() => forget.mutate()}>
          Forget it
        </Button>
      </footer>
    </Dialog>
  )
}
