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
      lead="In a folder of this machine: a second disk or a mounted network drive is best. It is made if it is not there."
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
          {inside && <small>It is inside the backed-up folders, so it is left out of its own backups.</small>}
        </label>
      </section>
      <Note>
        On the same disk a backup survives a mistake, not the disk. A mirror to another place can be added at any time.
        There is a repository already?{' '}
        <Link to="/repositories/import" className="link">
          Import it
        </Link>
      </Note>
    </Panel>
  )
}
