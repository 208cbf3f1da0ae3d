import { useNavigate } from '@tanstack/react-router'
import { type FormEvent, useState } from 'react'
import { Button } from '../../ui/Button'
import { Icon } from '../../ui/Icon'
import { FolderChooser } from '../machines/FolderChooser'
import { HERE } from '../machines/place'
import { trimmed } from './draft'
import { Panel, type Step } from './Welcome'

const COMMON = ['/home', '/root', '/etc', '/srv', '/var/www', '/opt', '/var/lib']
const LEFT_OUT = [
  ['**/.cache', 'caches of programs'],
  ['**/node_modules', 'packages of Node'],
  ['**/*.tmp', 'temporary files'],
  ['**/.local/share/Trash', 'the bin'],
] as const

export function What({ draft, change, go }: Step) {
  const navigate = useNavigate()
  const [text, setText] = useState('')
  const [choosing, setChoosing] = useState(false)
  const add = (path: string) => {
    const clean = trimmed(path)
    if (clean.startsWith('/') && !draft.paths.includes(clean)) change({ paths: [...draft.paths, clean] })
  }
  const submit = (event: FormEvent) => {
    event.preventDefault()
    add(text)
    setText('')
  }
  const wrong = text.trim() !== '' && !text.trim().startsWith('/')
  const next = () => {
    if (text.trim().startsWith('/')) add(text)
    go('where')
  }
  return (
    <Panel
      title="What should be backed up?"
      lead="Folders on the machine that runs Holdfast. Add other machines later, under Machines."
      next={
        <>
          <Button
            kind="plain"
            onClick={() => {
              sessionStorage.setItem('welcome-skipped', '1')
              void navigate({ to: '/' })
            }}
          >
            Not now
          </Button>
          <Button kind="primary" disabled={draft.paths.length === 0 && !text.trim().startsWith('/')} onClick={next}>
            Next: where to
          </Button>
        </>
      }
    >
      <section className="card pad stack">
        <ul className="plain-list">
          {draft.paths.map((path) => (
            <li key={path} className="row welcome-path">
              <Icon name="folder" />
              <span className="grow mono wrap">{path}</span>
              <Button
                small
                kind="plain"
                icon="close"
                aria-label={`Remove ${path}`}
                onClick={() => change({ paths: draft.paths.filter((one) => one !== path) })}
              />
            </li>
          ))}
        </ul>
        <form className="row welcome-add" onSubmit={submit}>
          <input
            className="input mono grow"
            aria-label="Folder or file"
            aria-describedby="what-hint"
            placeholder="/home/anna"
            value={text}
            onChange={(event) => setText(event.target.value)}
            // biome-ignore lint/a11y/noAutofocus: the page has one purpose
            autoFocus
          />
          <Button type="submit" icon="plus" disabled={!text.trim().startsWith('/')}>
            Add
          </Button>
          <Button icon="folder" onClick={() => setChoosing(true)}>
            Choose
          </Button>
        </form>
        {choosing && <FolderChooser files place={HERE} onChoose={add} onClose={() => setChoosing(false)} />}
        <p id="what-hint" className={wrong ? 'soft' : 'muted'} role={wrong ? 'status' : undefined}>
          {wrong ? 'A full path begins with a slash, such as /home/anna.' : 'Type a full path, or choose one of these:'}
        </p>
        <div className="row">
          {COMMON.filter((path) => !draft.paths.includes(path)).map((path) => (
            <button type="button" className="chip mono" key={path} onClick={() => add(path)}>
              {path}
            </button>
          ))}
        </div>
      </section>
      <fieldset className="card pad plain-card">
        <legend className="visually-hidden">Left out</legend>
        <h2>Left out</h2>
        {LEFT_OUT.map(([pattern, words]) => (
          <label className="choice" key={pattern}>
            <input
              type="checkbox"
              checked={draft.excludes.includes(pattern)}
              onChange={(event) =>
                change({
                  excludes: event.target.checked
                    ? [...draft.excludes, pattern]
                    : draft.excludes.filter((one) => one !== pattern),
                })
              }
            />
            <span>
              {words} <code className="muted">{pattern}</code>
            </span>
          </label>
        ))}
      </fieldset>
    </Panel>
  )
}
