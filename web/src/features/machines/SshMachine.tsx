import { useMutation, useQuery, useQueryClient } from '@tanstack/react-query'
import { useNavigate } from '@tanstack/react-router'
import { useState } from 'react'
import { api, data, type Schemas } from '../../api/client'
import { keys } from '../../api/keys'
import { Age } from '../../ui/Age'
import { Button } from '../../ui/Button'
import { Confirm } from '../../ui/Confirm'
import { Dialog } from '../../ui/Dialog'
import { Loaded, Note, Problem } from '../../ui/States'
import { Facts, Protected } from './Machine'
import { State } from './Machines'
import { Steps } from './Steps'

type Connection = Schemas['ConnectionAnswer']

export function SshMachine({ id }: { id: number }) {
  const query = useQuery({
    queryKey: [...keys.machines, 'ssh', id],
    queryFn: () => data(api.GET('/api/ssh-connections/{connection_id}', { params: { path: { connection_id: id } } })),
  })
  return (
    <main>
      <Loaded query={query} height={320} page>
        {(connection) => <Shown connection={connection} />}
      </Loaded>
    </main>
  )
}

function Shown({ connection }: { connection: Connection }) {
  const client = useQueryClient()
  const params = { path: { connection_id: connection.id } }
  const refresh = () => void client.invalidateQueries({ queryKey: keys.machines })
  const test = useMutation({
    mutationFn: () => data(api.POST('/api/ssh-connections/{connection_id}/test', { params, body: null })),
    onSettled: refresh,
  })
  const found = test.data ?? connection.last_test
  const failed = found?.steps.find((one) => one.verdict === 'failed')
  return (
    <>
      <div className="row gap">
        <h1 className="grow">{connection.name}</h1>
        <Button acts small disabled={test.isPending} onClick={() => test.mutate()}>
          {test.isPending ? 'Testing…' : 'Test the connection'}
        </Button>
        <Remove connection={connection} />
      </div>
      <div className="stack">
        <section className="card pad stack" aria-label="About this machine">
          <Facts
            rows={[
              ['State', <State key="state" status={connection.status} />],
              ['Last seen', connection.last_seen_at ? <Age key="seen" at={connection.last_seen_at} words /> : 'never'],
              ['Account', <code key="account">{`${connection.username}@${connection.host}:${connection.port}`}</code>],
              ['Engine', connection.engine_version ? `BorgBackup ${connection.engine_version}` : 'not known yet'],
              ['Python', connection.python_version ?? 'not known yet'],
              [
                'Host key',
                connection.host_key ? <code key="host">{connection.host_key.fingerprint}</code> : 'not seen yet',
              ],
            ]}
          />
        </section>
        {test.error && <Problem error={test.error} />}
        {found && (
          <section className="card pad stack" aria-label="Last test">
            <h2>
              Last test <Age at={found.tested_at} words />
            </h2>
            <Steps test={found} />
          </section>
        )}
        {(failed?.key === 'ssh.key_refused' || !found) && <Key connection={connection} onDone={() => test.mutate()} />}
        {failed?.key === 'ssh.host_key_changed' && (
          <NewHostKey connection={connection} step={failed} onDone={() => test.mutate()} />
        )}
        <Protected machine={{ ssh_connection_id: connection.id }} />
      </div>
    </>
  )
}

/** How the machine learns to accept the service: by hand, or once by its password. */
function Key({ connection, onDone }: { connection: Connection; onDone: () => void }) {
  const [password, setPassword] = useState('')
  const key = useQuery({ queryKey: ['system-key'], queryFn: () => data(api.GET('/api/ssh-connections/system-key')) })
  const deploy = useMutation({
    mutationFn: () =>
      data(
        api.POST('/api/ssh-connections/{connection_id}/deploy-key', {
          params: { path: { connection_id: connection.id } },
          body: { password },
        }),
      ),
    onSuccess: () => {
      setPassword('')
      onDone()
    },
  })
  return (
    <section className="card pad stack" aria-label="The service's key">
      <h2>Authorize the service's key</h2>
      <Loaded query={key} height={60}>
        {(found) => (
          <>
            <p>
              Add this line to <code>~/.ssh/authorized_keys</code> of {connection.username} on the machine:
            </p>
            <code className="command">{found.public_key}</code>
            <div>
              <Button small icon="copy" onClick={() => void navigator.clipboard?.writeText(found.public_key)}>
                Copy
              </Button>
            </div>
          </>
        )}
      </Loaded>
      <form
        className="row"
        onSubmit={(event) => {
          event.preventDefault()
          deploy.mutate()
        }}
      >
        <label className="field grow">
          <span>Or let the service add it, using the account's password, which is not stored.</span>
          <input
            className="input"
            type="password"
            autoComplete="off"
            value={password}
            onChange={(event) => setPassword(event.target.value)}
          />
        </label>
        <Button acts type="submit" disabled={!password || deploy.isPending}>
          {deploy.isPending ? 'Adding…' : 'Add the key'}
        </Button>
      </form>
      {deploy.error && <Problem error={deploy.error} />}
    </section>
  )
}

function NewHostKey({
  connection,
  step,
  onDone,
}: {
  connection: Connection
  step: Schemas['StepAnswer']
  onDone: () => void
}) {
  const offered = step.details?.shown_fingerprint
  const fingerprint = typeof offered === 'string' ? offered : ''
  const accept = useMutation({
    mutationFn: () =>
      data(
        api.POST('/api/ssh-connections/{connection_id}/host-key/accept', {
          params: { path: { connection_id: connection.id } },
          body: { fingerprint },
        }),
      ),
    onSuccess: onDone,
  })
  return (
    <section className="card pad stack" aria-label="Host key changed">
      <Note warn title="The machine's host key has changed.">
        It may have been reinstalled, or another machine is answering in its place. Compare the fingerprint on the
        machine itself: ssh-keygen -lf /etc/ssh/ssh_host_ed25519_key.pub
      </Note>
      {fingerprint && <code className="command">{fingerprint}</code>}
      {accept.error && <Problem error={accept.error} />}
      <div>
        <Button acts kind="danger" disabled={!fingerprint || accept.isPending} onClick={() => accept.mutate()}>
          It matches: accept the new key
        </Button>
      </div>
    </section>
  )
}

function Remove({ connection }: { connection: Connection }) {
  const client = useQueryClient()
  const navigate = useNavigate()
  const [asked, setAsked] = useState(false)
  const remove = useMutation({
    mutationFn: () =>
      data(api.DELETE('/api/ssh-connections/{connection_id}', { params: { path: { connection_id: connection.id } } })),
    onSuccess: () => {
      void client.invalidateQueries({ queryKey: keys.machines })
      void navigate({ to: '/machines' })
    },
  })
  return (
    <>
      <Button small kind="plain" onClick={() => setAsked(true)}>
        Remove
      </Button>
      {asked && (
        <Confirm
          title={`Remove ${connection.name} from the list?`}
          act="Remove"
          busy={remove.isPending}
          error={remove.error}
          onAct={() => remove.mutate()}
          onClose={() => setAsked(false)}
        >
          <p>The service removes the connection. Nothing changes on the machine itself.</p>
        </Confirm>
      )}
    </>
  )
}

/** A machine that the service reaches by itself, over ssh. */
export function AddSsh({ onClose }: { onClose: () => void }) {
  const client = useQueryClient()
  const navigate = useNavigate()
  const create = useMutation({
    mutationFn: (form: FormData) =>
      data(
        api.POST('/api/ssh-connections', {
          body: {
            name: String(form.get('name')),
            host: String(form.get('host')),
            username: String(form.get('username')),
            port: Number(form.get('port')),
          },
        }),
      ),
    onSuccess: (made) => {
      void client.invalidateQueries({ queryKey: keys.machines })
      void navigate({ to: '/machines/$kind/$id', params: { kind: 'ssh', id: String(made.id) } })
    },
  })
  return (
    <Dialog title="Add a machine over ssh" onClose={onClose}>
      <form
        className="stack"
        onSubmit={(event) => {
          event.preventDefault()
          create.mutate(new FormData(event.currentTarget))
        }}
      >
        <label className="field">
          <span>Name</span>
          <input className="input" name="name" required placeholder="nas" />
        </label>
        <label className="field">
          <span>Host</span>
          <input className="input mono" name="host" required placeholder="nas.lan" />
        </label>
        <div className="row">
          <label className="field grow">
            <span>Account</span>
            <input className="input mono" name="username" required defaultValue="root" />
          </label>
          <label className="field">
            <span>Port</span>
            <input className="input number" name="port" type="number" min={1} max={65535} defaultValue={22} required />
          </label>
        </div>
        {create.error && <Problem error={create.error} />}
        <footer>
          <Button onClick={onClose}>Cancel</Button>
          <Button acts type="submit" kind="primary" disabled={create.isPending}>
            Next: authorize the key
          </Button>
        </footer>
      </form>
    </Dialog>
  )
}
