import { useMutation } from '@tanstack/react-query'
import { Link } from '@tanstack/react-router'
import { type ReactNode, useState } from 'react'
import { api, data } from '../../api/client'
import { counted } from '../../lib/numbers'
import { Age } from '../../ui/Age'
import { Button } from '../../ui/Button'
import { Dialog } from '../../ui/Dialog'
import { Glyph, type GlyphName } from '../../ui/Glyph'
import { Empty, Loaded, Problem } from '../../ui/States'
import { type Machine, useMachines } from './place'
import { AddSsh } from './SshMachine'

const LOOK: Record<string, [GlyphName, string]> = {
  online: ['ok', 'online'],
  ok: ['ok', 'reachable'],
  offline: ['bad', 'offline'],
  failed: ['bad', 'test failed'],
  pending: ['wait', 'not seen yet'],
  unknown: ['unknown', 'not tested'],
  disabled: ['unknown', 'disabled'],
  revoked: ['unknown', 'revoked'],
}

export function State({ status }: { status: string }) {
  const [glyph, word] = LOOK[status] ?? (['unknown', status] as const)
  return (
    <span className="evidence">
      <Glyph name={glyph as GlyphName} />
      {word}
    </span>
  )
}

export function Machines() {
  const [adding, setAdding] = useState<'agent' | 'ssh' | null>(null)
  const query = useMachines()
  return (
    <main>
      <div className="row gap">
        <h1 className="grow">Machines</h1>
        {query.data && (
          <>
            <Button onClick={() => setAdding('ssh')}>Add over ssh</Button>
            <Button kind="primary" onClick={() => setAdding('agent')}>
              Add a machine
            </Button>
          </>
        )}
      </div>
      <Loaded query={query} height={240}>
        {({ machines }) =>
          machines.length === 0 ? (
            <Empty command="holdfast machines enroll --help">
              No other machines yet. The service's own machine is always available.
            </Empty>
          ) : (
            <div className="card scroll">
              <table>
                <thead>
                  <tr>
                    <th>Name</th>
                    <th>State</th>
                    <th className="wide-only">Last seen</th>
                    <th>Last backup</th>
                    <th className="wide-only">Repositories</th>
                    <th className="wide-only">Engine</th>
                    <th className="wide-only">Connection</th>
                  </tr>
                </thead>
                <tbody>
                  {machines.map((one) => (
                    <tr key={one.key}>
                      <td className="name">
                        <Link to="/machines/$kind/$id" params={{ kind: one.connection_type, id: String(one.id) }}>
                          {one.name}
                        </Link>
                      </td>
                      <td>
                        <State status={one.status} />
                        {one.trouble && <span className="sub trouble">{one.trouble}</span>}
                      </td>
                      <td className="wide-only">
                        {one.last_seen_at ? <Age at={one.last_seen_at} words /> : <Never />}
                      </td>
                      <td>{one.last_backup_at ? <Age at={one.last_backup_at} words /> : <Never />}</td>
                      <td className="wide-only soft">
                        {one.repository_count === 0
                          ? 'none'
                          : counted(one.repository_count, 'repository', 'repositories')}
                        {one.running > 0 && `, ${counted(one.running, 'job')} running`}
                      </td>
                      <td className="wide-only soft">{one.engine_versions.join(', ') || 'not known'}</td>
                      <td className="wide-only soft">
                        {one.connection_type === 'agent' ? `agent ${one.agent_version}` : 'ssh'}
                        {one.update_available && <span className="sub">another version is ready</span>}
                      </td>
                    </tr>
                  ))}
                </tbody>
              </table>
            </div>
          )
        }
      </Loaded>
      {adding === 'agent' && <Add machines={query.data?.machines ?? []} onClose={() => setAdding(null)} />}
      {adding === 'ssh' && <AddSsh onClose={() => setAdding(null)} />}
    </main>
  )
}

const Never = () => <span className="muted">never</span>

/** One line to paste on the machine; the page notices when it has worked. */
function Add({ machines, onClose }: { machines: Machine[]; onClose: () => void }) {
  const [before] = useState(() => new Set(machines.map((one) => one.key)))
  const make = useMutation({
    mutationFn: () =>
      data(
        api.POST('/api/managed-machines/enrollment-tokens', {
          body: { name: 'from the web page', expires_in_minutes: 60 },
        }),
      ),
  })
  const arrived = machines.find((one) => !before.has(one.key))
  const token = make.data?.token
  const line = token
    ? `curl -fsSL ${location.origin}/agent/install.sh | sudo sh -s -- --server ${location.origin} --token ${token}`
    : ''
  return (
    <Dialog title="Add a machine" onClose={onClose}>
      <p className="soft">
        An agent is a small program on the machine to back up. It connects to this service, so no port needs to be
        opened there.
      </p>
      {make.error && <Problem error={make.error} />}
      {token && (
        <>
          <p>Paste this into a terminal on the machine:</p>
          <code className="command">{line}</code>
          <div>
            <Button small icon="copy" onClick={() => void navigator.clipboard?.writeText(line)}>
              Copy
            </Button>
          </div>
          <ul className="plain-list" aria-live="polite">
            <Tick done>The token is valid for 60 minutes and for one machine.</Tick>
            <Tick done={arrived !== undefined} next>
              {arrived ? `${arrived.name} has enrolled.` : 'Waiting for the machine…'}
            </Tick>
            <Tick done={arrived?.status === 'online'} next={arrived !== undefined}>
              {arrived?.status === 'online' ? 'The agent is running.' : 'The agent runs'}
            </Tick>
            <Tick done={(arrived?.engine_versions.length ?? 0) > 0} next={arrived?.status === 'online'}>
              {arrived?.engine_versions.length
                ? `BorgBackup ${arrived.engine_versions.join(', ')} is installed.`
                : 'BorgBackup is installed'}
            </Tick>
          </ul>
          {!arrived && (
            <details>
              <summary className="soft">Nothing happens?</summary>
              <ul>
                <li>
                  The machine must be able to reach this address: <code>curl {location.origin}/health/live</code>
                </li>
                <li>
                  It needs Python 3.11 or newer: <code>python3 --version</code>
                </li>
                <li>
                  The output of the line itself says what failed; afterwards <code>journalctl -u backup-agent</code>{' '}
                  does.
                </li>
              </ul>
            </details>
          )}
        </>
      )}
      <footer>
        {arrived && (
          <Link
            to="/machines/$kind/$id"
            params={{ kind: arrived.connection_type, id: String(arrived.id) }}
            className="button primary"
          >
            Open {arrived.name}
          </Link>
        )}
        <Button onClick={onClose}>{arrived ? 'Done' : 'Close'}</Button>
        {!token && (
          <Button acts kind="primary" disabled={make.isPending} onClick={() => make.mutate()}>
            Create install command
          </Button>
        )}
      </footer>
    </Dialog>
  )
}

/** A step of the enrolment: done, the one that is waited for, or one to come. */
function Tick({ done, next, children }: { done: boolean; next?: boolean; children: ReactNode }) {
  return (
    <li className={done || next ? 'evidence wrap' : 'evidence wrap never'}>
      <Glyph name={done ? 'ok' : next ? 'run' : 'unknown'} />
      <span>{children}</span>
    </li>
  )
}
