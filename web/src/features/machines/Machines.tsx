import { useMutation, useQuery } from '@tanstack/react-query'
import { useState } from 'react'
import { api, data } from '../../api/client'
import { keys } from '../../api/keys'
import { Age } from '../../ui/Age'
import { Button } from '../../ui/Button'
import { Dialog } from '../../ui/Dialog'
import { Glyph, type GlyphName } from '../../ui/Glyph'
import { Empty, Loaded, Problem } from '../../ui/States'

const LOOK: Record<string, [GlyphName, string]> = {
  online: ['ok', 'online'],
  ok: ['ok', 'reachable'],
  offline: ['bad', 'offline'],
  failed: ['bad', 'not reachable'],
  pending: ['wait', 'not seen yet'],
  unknown: ['unknown', 'not tested'],
  disabled: ['unknown', 'disabled'],
  revoked: ['unknown', 'revoked'],
}

export function Machines() {
  const [adding, setAdding] = useState(false)
  const query = useQuery({ queryKey: keys.machines, queryFn: () => data(api.GET('/api/managed-machines/')) })
  return (
    <main>
      <div className="row gap">
        <h1 className="grow">Machines</h1>
        <Button kind="primary" onClick={() => setAdding(true)}>
          Add a machine
        </Button>
      </div>
      <Loaded query={query} height={240}>
        {({ machines }) =>
          machines.length === 0 ? (
            <Empty command="holdfast machines enroll --help">
              No other machines yet. The service's own machine is always there.
            </Empty>
          ) : (
            <div className="card scroll">
              <table>
                <thead>
                  <tr>
                    <th>Name</th>
                    <th>State</th>
                    <th>Last seen</th>
                    <th>Reached by</th>
                  </tr>
                </thead>
                <tbody>
                  {machines.map((one) => {
                    const [glyph, word] = LOOK[one.status] ?? (['unknown', one.status] as const)
                    return (
                      <tr key={`${one.connection_type}${one.id}`}>
                        <td className="name">{one.name}</td>
                        <td>
                          <span className="evidence">
                            <Glyph name={glyph as GlyphName} />
                            {word}
                          </span>
                        </td>
                        <td>
                          {one.status === 'online' ? (
                            'now'
                          ) : one.last_seen_at ? (
                            <Age at={one.last_seen_at} words />
                          ) : (
                            <span className="muted">never</span>
                          )}
                        </td>
                        <td className="soft">{one.connection_type === 'agent' ? 'agent' : 'ssh'}</td>
                      </tr>
                    )
                  })}
                </tbody>
              </table>
            </div>
          )
        }
      </Loaded>
      {adding && <Add known={query.data?.machines.map((one) => one.name) ?? []} onClose={() => setAdding(false)} />}
    </main>
  )
}

/** One line to paste on the machine; the page notices when it has worked. */
function Add({ known, onClose }: { known: string[]; onClose: () => void }) {
  const [before] = useState(known)
  const make = useMutation({
    mutationFn: () =>
      data(
        api.POST('/api/managed-machines/enrollment-tokens', {
          body: { name: 'from the web page', expires_in_minutes: 60 },
        }),
      ),
  })
  const arrived = known.filter((name) => !before.includes(name))
  const token = make.data?.token
  const line = token
    ? `curl -fsSL ${location.origin}/agent/install.sh | sudo sh -s -- --server ${location.origin} --token ${token}`
    : ''
  return (
    <Dialog title="Add a machine" onClose={onClose}>
      <p className="soft">
        An agent is a small program on the machine that is to be backed up. It calls this service, so nothing has to be
        opened there.
      </p>
      {!token && (
        <Button kind="primary" disabled={make.isPending} onClick={() => make.mutate()}>
          Make the line to paste
        </Button>
      )}
      {make.error && <Problem error={make.error} />}
      {token && (
        <>
          <p>Paste this into a terminal of the machine:</p>
          <code className="command">{line}</code>
          <div>
            <Button small icon="copy" onClick={() => void navigator.clipboard?.writeText(line)}>
              Copy
            </Button>
          </div>
          <ul className="plain-list">
            <li className="evidence">
              <Glyph name="ok" /> The token is good for 60 minutes and for one machine.
            </li>
            <li className="evidence">
              {arrived.length ? <Glyph name="ok" /> : <Glyph name="run" />}
              {arrived.length ? `${arrived.join(', ')} has enrolled.` : 'Waiting for the machine…'}
            </li>
          </ul>
        </>
      )}
      <footer>
        <Button onClick={onClose}>{arrived.length ? 'Done' : 'Close'}</Button>
      </footer>
    </Dialog>
  )
}
