import { Link } from '@tanstack/react-router'
import { Button } from '../../ui/Button'
import { Note } from '../../ui/States'
import { own, suggested, trimmed } from './draft'
import { Panel, type Step } from './Welcome'

export function Where({ draft, change, go }: Step) {
  const place = draft.place || suggested(draft.paths, draft.name || 'first')
  const ready = trimmed(place).startsWith('/') && draft.name.trim() !== '' && draft.paths.length > 0
  const inside = own(draft.paths, trimmed(place)).length > 0
  return (
    <Panel
      title="Where should the backups be stored?"
      lead="In a folder on this machine, ideally on a second disk or a mounted network drive. It is created if missing."
      back={() => go('what')}
      next={
        <Button
          kind="primary"
          disabled={!ready}
          onClick={() => {
            change({ place: trimmed(place) })
            go('key')
          }}
        >
          Next: protect it
        </Button>
      }
    >
      <section className="card pad stack">
        <label className="field">
          <span>Name</span>
          <input
            className="input"
            value={draft.name}
            onChange={(event) => change({ name: event.target.value })}
            disabled={draft.repository !== null}
          />
        </label>
        <label className="field">
          <span>Folder</span>
          <input
            className="input mono"
            value={place}
            onChange={(event) => change({ place: event.target.value })}
            disabled={draft.repository !== null}
          />
          {inside && <small>It is inside the backed-up folders, so backups leave it out.</small>}
        </label>
      </section>
      <Note>
        A backup on the same disk survives mistakes, but not the disk's failure. You can add a mirror elsewhere at any
        time. Already have a repository?{' '}
        <Link to="/repositories/import" className="link">
          Import it
        </Link>
      </Note>
    </Panel>
  )
}
