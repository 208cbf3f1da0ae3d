import { useMutation, useQuery, useQueryClient } from '@tanstack/react-query'
import { Link } from '@tanstack/react-router'
import { useState } from 'react'
import { api, data, Refused, type Schemas } from '../../api/client'
import { keys } from '../../api/keys'
import { twoOf } from '../../lib/passphrase'
import { save } from '../../lib/save'
import { moment } from '../../lib/time'
import { Button } from '../../ui/Button'
import { Glyph } from '../../ui/Glyph'
import { Note, Problem } from '../../ui/States'
import { own } from './draft'
import { type Kit, page, parts } from './kit'
import { Panel, type Step } from './Welcome'

export function KeyStep({ draft, change, go }: Step) {
  const client = useQueryClient()
  const { data: system } = useQuery({ queryKey: keys.system, queryFn: () => data(api.GET('/api/system/info')) })
  const major = system?.engines.some((engine) => engine.major === 1) ? 1 : 2
  const create = useMutation({
    mutationFn: async () => {
      const body = {
        name: draft.name.trim(),
        path: draft.place,
        passphrase: draft.passphrase,
        source_paths: draft.paths,
        exclude_patterns: [...draft.excludes, ...own(draft.paths, draft.place)],
        engine_version: major,
        encryption: major === 2 ? 'aes256-ocb' : 'repokey-blake2',
      } as unknown as Schemas['NewRepository']
      const made = await data(api.POST('/api/repositories/', { body }))
      const { key } = await data(
        api.GET('/api/repositories/{repository_id}/key', { params: { path: { repository_id: made.id } } }),
      )
      return { repository: made.id, key }
    },
    onSuccess: (made) => {
      change({ ...made, engine: major })
      void client.invalidateQueries()
    },
  })
  const words = draft.passphrase.split('-')
  if (draft.repository !== null && draft.key === null) return <Lost draft={draft} go={go} />
  const made = draft.repository !== null
  const engine = system?.engines.find((one) => one.major === (draft.engine ?? major))
  return (
    <Panel
      title={made ? 'Keep this away from the machine' : 'The key to your backups'}
      lead={
        made
          ? 'If this machine is lost, you need only the recovery kit and the repository, not Holdfast itself.'
          : 'Backups are encrypted. This passphrase, generated in your browser, opens them.'
      }
      back={made ? undefined : () => go('where')}
      next={
        made ? (
          <Button kind="primary" disabled={!draft.kept} onClick={() => go('backup')}>
            Start the first backup
          </Button>
        ) : (
          <Button acts kind="primary" disabled={create.isPending || !system} onClick={() => create.mutate()}>
            {create.isPending ? 'Creating the repository…' : 'Create the repository'}
          </Button>
        )
      }
    >
      <ol className="card words" aria-label="Passphrase">
        {words.map((word, index) => (
          // biome-ignore lint/suspicious/noArrayIndexKey: a word is its place
          <li key={index}>
            <span className="muted number">{index + 1}</span> <b className="mono">{word}</b>
          </li>
        ))}
      </ol>
      {!made && <p className="muted">Written with hyphens: {draft.passphrase}</p>}
      {create.error && <Refusal error={create.error} />}
      {made && draft.key && engine && (
        <Keep
          kit={{
            name: draft.name,
            path: draft.place,
            passphrase: draft.passphrase,
            key: draft.key,
            engine: engine.version,
            major: engine.major,
            made: moment(new Date().toISOString()),
          }}
          words={words}
          kept={draft.kept}
          onKept={() => change({ kept: true })}
        />
      )}
    </Panel>
  )
}

function Refusal({ error }: { error: unknown }) {
  const there = error instanceof Refused && /not_empty|exists|already/.test(error.key)
  return (
    <>
      <Problem error={error} />
      {there && (
        <p>
          <Link to="/repositories/import" className="link">
            Import the existing one instead
          </Link>
        </p>
      )}
    </>
  )
}

function Keep({ kit, words, kept, onKept }: { kit: Kit; words: string[]; kept: boolean; onKept: () => void }) {
  const [asked] = useState(() => twoOf(words.length))
  const [said, setSaid] = useState(['', ''])
  const [saved, setSaved] = useState(false)
  const right = (index: 0 | 1) => said[index]?.trim().toLowerCase() === words[asked[index]]
  const type = (index: 0 | 1, text: string) => {
    const next = said.with(index, text)
    setSaid(next)
    if (([0, 1] as const).every((one) => next[one]?.trim().toLowerCase() === words[asked[one]])) onKept()
  }
  return (
    <>
      <section className="card pad row">
        <div className="grow">
          <h2>Recovery kit</h2>
          <p className="soft">One page with passphrase, key, location, and the commands to restore with plain borg.</p>
        </div>
        <Button icon="download" kind={saved ? 'normal' : 'primary'} onClick={() => keep(kit, () => setSaved(true))}>
          Save
        </Button>
        <Button
          onClick={() => {
            setSaved(true)
            window.print()
          }}
        >
          Print
        </Button>
      </section>
      <section className="card pad stack">
        <h2>{kept ? 'Kept' : 'Now from the kit, not from this page: two of its words'}</h2>
        <div className="row">
          {([0, 1] as const).map((index) => (
            <label className="field" key={index}>
              <span>Word {asked[index] + 1}</span>
              <span className="row">
                <input
                  className="input mono welcome-word"
                  value={said[index]}
                  disabled={kept}
                  autoCapitalize="none"
                  autoComplete="off"
                  spellCheck={false}
                  onChange={(event) => type(index, event.target.value)}
                />
                {(kept || right(index)) && <Glyph name="ok" />}
              </span>
            </label>
          ))}
        </div>
      </section>
      <div className="print-only">
        <h1>Recovery kit of {kit.name}</h1>
        <p>
          Made {kit.made}. Keep it away from the machine that is backed up. Anyone who has it and the repository can
          read every backup.
        </p>
        {parts(kit).map((part) => (
          <section key={part.title}>
            <h2>{part.title}</h2>
            <p>{part.words}</p>
            <pre>{part.code}</pre>
          </section>
        ))}
      </div>
    </>
  )
}

function keep(kit: Kit, done: () => void): void {
  save(`recovery-kit-${kit.name}.html`, new Blob([page(kit)], { type: 'text/html' }))
  done()
}

/** After a reload the passphrase is gone from the page; nothing has been backed up with it yet. */
function Lost({ draft, go }: Pick<Step, 'draft' | 'go'>) {
  return (
    <Panel
      title="The passphrase was shown once"
      lead="The page was reloaded, and the browser does not keep the passphrase."
      next={
        draft.kept ? (
          <Button kind="primary" onClick={() => go('backup')}>
            Start the first backup
          </Button>
        ) : (
          <Link to="/repositories/$id/settings" params={{ id: String(draft.repository) }} className="button">
            Open the repository
          </Link>
        )
      }
    >
      <Note warn={!draft.kept}>
        {draft.kept
          ? 'You have its recovery kit: two of its words were confirmed. Continue.'
          : 'If you have its recovery kit, continue with the repository. If not, forget it there and start again: it is still empty.'}
      </Note>
    </Panel>
  )
}
