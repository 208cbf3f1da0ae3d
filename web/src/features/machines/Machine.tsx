import { useMutation, useQuery, useQueryClient } from '@tanstack/react-query'
import { Link, useNavigate, useParams } from '@tanstack/react-router'
import { type FormEvent, type ReactNode, useState } from 'react'
import { api, data, type Schemas } from '../../api/client'
import { keys } from '../../api/keys'
import { counted } from '../../lib/numbers'
import { Age } from '../../ui/Age'
import { Button } from '../../ui/Button'
import { Confirm } from '../../ui/Confirm'
import { Dialog } from '../../ui/Dialog'
import { Glyph } from '../../ui/Glyph'
import { Empty, Loaded, Note, Problem } from '../../ui/States'
import { OperationTable } from '../operations/Activity'
import { State } from './Machines'
import { SshMachine } from './SshMachine'

type Agent = Schemas['AgentItem']

/** One machine: is it there, and what does it protect. */
export function Machine() {
  const { kind, id } = useParams({ from: '/machines/$kind/$id' })
  return kind === 'ssh' ? <SshMachine id={Number(id)} /> : <AgentMachine id={id} />
}

function AgentMachine({ id }: { id: string }) {
  const query = useQuery({
    queryKey: [...keys.machines, 'agent', id],
    queryFn: () => data(api.GET('/api/managed-machines/agents/{agent}', { params: { path: { agent: id } } })),
  })
  return (
    <main>
      <Loaded query={query} height={320} page>
        {(agent) => (
          <>
            <div className="row gap titled">
              <h1 className="grow">{agent.name}</h1>
              <Acts agent={agent} />
            </div>
            <div className="stack">
              <section className="card pad stack" aria-label="About this machine">
                <Facts
                  rows={[
                    ['State', <State key="state" status={agent.status} />],
                    ['Last seen', agent.last_seen_at ? <Age key="seen" at={agent.last_seen_at} words /> : 'never'],
                    ['Host name', agent.hostname],
                    ['System', `${agent.os}, ${agent.arch}`],
                    ['Agent', agent.agent_version],
                    [
                      'Engines',
                      agent.engine_versions.map((one) => `BorgBackup ${one.version}`).join(', ') || 'none found',
                    ],
                    ['Clock', clockWords(agent.clock_skew_seconds)],
                    ...Object.entries(agent.labels).map(([name, value]) => [name, value] as [string, ReactNode]),
                  ]}
                />
                {agent.last_error && (
                  <Note warn={agent.status !== 'online'} title="The last error that the agent reported">
                    {agent.last_error}
                  </Note>
                )}
              </section>
              <Diagnosis agent={agent} />
              <Protected machine={{ agent_machine_id: agent.id }} />
              <Recent machineId={agent.id} />
            </div>
          </>
        )}
      </Loaded>
    </main>
  )
}

function Acts({ agent }: { agent: Agent }) {
  const client = useQueryClient()
  const navigate = useNavigate()
  const [asked, setAsked] = useState<'revoke' | 'delete' | 'rename' | null>(null)
  const params = { path: { agent: String(agent.id) } }
  const done = () => {
    setAsked(null)
    void client.invalidateQueries({ queryKey: keys.machines })
  }
  const act = useMutation({
    mutationFn: (word: 'disable' | 'enable' | 'revoke') =>
      data(api.POST(`/api/managed-machines/agents/{agent}/${word}`, { params })),
    onSuccess: done,
  })
  const remove = useMutation({
    mutationFn: () => data(api.DELETE('/api/managed-machines/agents/{agent}', { params })),
    onSuccess: () => {
      done()
      void navigate({ to: '/machines' })
    },
  })
  return (
    <>
      <Button small onClick={() => setAsked('rename')}>
        Rename
      </Button>
      {agent.status === 'disabled' ? (
        <Button acts small disabled={act.isPending} onClick={() => act.mutate('enable')}>
          Enable
        </Button>
      ) : (
        agent.status !== 'revoked' && (
          <Button acts small disabled={act.isPending} onClick={() => act.mutate('disable')}>
            Disable
          </Button>
        )
      )}
      {agent.status === 'revoked' ? (
        <Button small kind="plain" onClick={() => setAsked('delete')}>
          Remove
        </Button>
      ) : (
        <Button small kind="plain" onClick={() => setAsked('revoke')}>
          Revoke
        </Button>
      )}
      {act.error && asked === null && <Problem error={act.error} />}
      {asked === 'rename' && <Rename agent={agent} onClose={() => setAsked(null)} onDone={done} />}
      {asked === 'revoke' && (
        <Confirm
          title={`Revoke ${agent.name}?`}
          act="Revoke"
          busy={act.isPending}
          error={act.error}
          onAct={() => act.mutate('revoke')}
          onClose={() => setAsked(null)}
        >
          <p>Its credential ends at once, and it can do nothing more. To bring it back, enrol it again.</p>
          <p>Backups that are already in repositories stay as they are.</p>
        </Confirm>
      )}
      {asked === 'delete' && (
        <Confirm
          title={`Remove ${agent.name} from the list?`}
          act="Remove"
          busy={remove.isPending}
          error={remove.error}
          onAct={() => remove.mutate()}
          onClose={() => setAsked(null)}
        >
          <p>Its repositories and the record of its work stay. Nothing changes on the machine itself.</p>
        </Confirm>
      )}
    </>
  )
}

function Rename({ agent, onClose, onDone }: { agent: Agent; onClose: () => void; onDone: () => void }) {
  const [name, setName] = useState(agent.name)
  const save = useMutation({
    mutationFn: () =>
      data(
        api.PUT('/api/managed-machines/agents/{agent}', {
          params: { path: { agent: String(agent.id) } },
          body: { name },
        }),
      ),
    onSuccess: onDone,
  })
  const submit = (event: FormEvent) => {
    event.preventDefault()
    save.mutate()
  }
  return (
    <Dialog title={`Rename ${agent.name}`} onClose={onClose}>
      <form className="stack" onSubmit={submit}>
        <label className="field">
          <span>Name</span>
          <input
            className="input"
            required
            maxLength={200}
            value={name}
            onChange={(event) => setName(event.target.value)}
          />
        </label>
        {save.error && <Problem error={save.error} />}
        <footer>
          <Button onClick={onClose}>Cancel</Button>
          <Button acts type="submit" kind="primary" disabled={save.isPending || !name.trim()}>
            Rename
          </Button>
        </footer>
      </form>
    </Dialog>
  )
}

const clockWords = (seconds: number | null) =>
  seconds === null
    ? 'not known yet'
    : Math.abs(seconds) < 2
      ? 'right'
      : `${counted(Math.round(Math.abs(seconds)), 'second')} ${seconds > 0 ? 'ahead' : 'behind'}`

export function Facts({ rows }: { rows: [string, ReactNode][] }) {
  return (
    <dl className="facts-list">
      {rows.map(([name, value]) => (
        <div key={name}>
          <dt>{name}</dt>
          <dd>{value}</dd>
        </div>
      ))}
    </dl>
  )
}

/** The repositories that the engine of this machine opens. */
export function Protected({ machine }: { machine: { agent_machine_id?: number; ssh_connection_id?: number } }) {
  const query = useQuery({ queryKey: keys.repositories, queryFn: () => data(api.GET('/api/repositories/')) })
  return (
    <section className="stack" aria-label="Repositories">
      <h2>Repositories</h2>
      <Loaded query={query} height={120}>
        {({ repositories }) => {
          const own = repositories.filter(
            (one) =>
              (machine.agent_machine_id !== undefined && one.agent_machine_id === machine.agent_machine_id) ||
              (machine.ssh_connection_id !== undefined &&
                one.execution_target === 'ssh' &&
                one.ssh_connection_id === machine.ssh_connection_id),
          )
          return own.length === 0 ? (
            <Empty>
              Nothing on this machine is backed up yet.{' '}
              <Link to="/repositories/new" className="link">
                Create a repository
              </Link>
            </Empty>
          ) : (
            <div className="card scroll">
              <table>
                <thead>
                  <tr>
                    <th>Name</th>
                    <th>Last backup</th>
                    <th className="wide-only">What</th>
                  </tr>
                </thead>
                <tbody>
                  {own.map((one) => (
                    <tr key={one.id}>
                      <td>
                        <Link to="/repositories/$id" params={{ id: String(one.id) }} className="name">
                          {one.name}
                        </Link>
                      </td>
                      <td>
                        {one.last_backup ? <Age at={one.last_backup} words /> : <span className="muted">never</span>}
                      </td>
                      <td className="wide-only">
                        <span className="mono clip" title={one.source_paths.join(' ')}>
                          {one.source_paths.join(' ')}
                        </span>
                      </td>
                    </tr>
                  ))}
                </tbody>
              </table>
            </div>
          )
        }}
      </Loaded>
    </section>
  )
}

function Recent({ machineId }: { machineId: number }) {
  const filter = { machine_id: machineId, limit: 10 }
  const query = useQuery({
    queryKey: keys.operations(filter),
    queryFn: () => data(api.GET('/api/operations/', { params: { query: filter } })),
  })
  return (
    <section className="stack" aria-label="Recent work">
      <h2>Recent work</h2>
      <Loaded query={query} height={160}>
        {({ items }) => (items.length === 0 ? <Empty>No work yet.</Empty> : <OperationTable items={items} />)}
      </Loaded>
    </section>
  )
}

const VERDICTS = { ok: 'ok', warning: 'warn', failed: 'bad' } as const

const STEPS: Record<string, string> = {
  access: 'Access',
  connection: 'Connection',
  answer: 'Answer',
  engine: 'Engine',
  version: 'Version',
  clock: 'Clock',
  last_error: 'Last error',
}

/** What hinders the agent, if anything does; and how it is updated, which only its owner can do. */
function Diagnosis({ agent }: { agent: Agent }) {
  const ask = useMutation({
    mutationFn: () =>
      data(
        api.POST('/api/managed-machines/agents/{agent}/diagnose', { params: { path: { agent: String(agent.id) } } }),
      ),
  })
  const old = ask.data?.findings.some((one) => one.step === 'version' && one.verdict !== 'ok')
  const line = `curl -fsSL ${location.origin}/agent/install.sh | sudo sh -s -- --server ${location.origin} --upgrade`
  return (
    <section className="card pad stack" aria-label="Diagnosis">
      <div className="row">
        <div className="grow">
          <h2>Diagnosis</h2>
          <p className="soft">Queries the agent and checks what it has reported.</p>
        </div>
        <Button acts small disabled={ask.isPending} onClick={() => ask.mutate()}>
          {ask.isPending ? 'Asking…' : ask.data ? 'Ask again' : 'Diagnose'}
        </Button>
      </div>
      {ask.error && <Problem error={ask.error} />}
      {ask.data && (
        <ul className="plain-list findings" role="status">
          {ask.data.findings.map((one) => (
            <li key={one.step}>
              <Glyph name={VERDICTS[one.verdict]} />
              <b>{STEPS[one.step] ?? one.step}</b>
              <span className="soft wrap">{one.message}</span>
            </li>
          ))}
        </ul>
      )}
      {old && (
        <>
          <p>To update it, paste this into a terminal of the machine; its registration stays:</p>
          <code className="command">{line}</code>
        </>
      )}
    </section>
  )
}
