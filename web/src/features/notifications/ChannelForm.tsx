import { useMutation, useQuery, useQueryClient } from '@tanstack/react-query'
import { type FormEvent, useState } from 'react'
import { api, data, type Schemas } from '../../api/client'
import { keys } from '../../api/keys'
import { Button } from '../../ui/Button'
import { Dialog } from '../../ui/Dialog'
import { Problem } from '../../ui/States'

type Channel = Schemas['DestinationAnswer']
type Kind = Schemas['NewDestination']['kind']
type Options = Schemas['DestinationOptions']

const KINDS: [Kind, string, string][] = [
  ['smtp', 'Mail', 'by a mail server'],
  ['webhook', 'Webhook', 'a signed POST to an address: chat bridges, ntfy, your own program'],
  ['apprise', 'Apprise', 'one of a hundred chat services, by its Apprise address'],
  ['ping', 'Ping', 'a dead man’s switch in the style of healthchecks, for one schedule'],
]

export function ChannelForm({
  channel,
  onClose,
  onSaved,
}: {
  channel: Channel | null
  onClose: () => void
  onSaved: (saved: Channel) => void
}) {
  const client = useQueryClient()
  const [kind, setKind] = useState<Kind>((channel?.kind as Kind | undefined) ?? 'smtp')
  const save = useMutation({
    mutationFn: (form: FormData) => {
      const name = String(form.get('name')).trim()
      const options = optionsOf(kind, form)
      return channel
        ? data(
            api.PUT('/api/notifications/destinations/{destination_id}', {
              params: { path: { destination_id: channel.id } },
              body: { name, options },
            }),
          )
        : data(api.POST('/api/notifications/destinations', { body: { name, kind, options, enabled: true } }))
    },
    onSuccess: (saved) => {
      void client.invalidateQueries({ queryKey: ['notifications'] })
      onSaved(saved)
    },
  })
  const submit = (event: FormEvent<HTMLFormElement>) => {
    event.preventDefault()
    save.mutate(new FormData(event.currentTarget))
  }
  return (
    <Dialog title={channel ? `Edit ${channel.name}` : 'Add channel'} onClose={onClose}>
      <form className="stack" onSubmit={submit}>
        {!channel && (
          <fieldset className="plain">
            <legend>Kind</legend>
            {KINDS.map(([value, name, words]) => (
              <label className="choice" key={value}>
                <input type="radio" name="kind" checked={kind === value} onChange={() => setKind(value)} />
                <span>
                  <b>{name}</b> <span className="soft">{words}</span>
                </span>
              </label>
            ))}
          </fieldset>
        )}
        <label className="field">
          <span>Name</span>
          <input className="input" name="name" required defaultValue={channel?.name ?? ''} placeholder="night watch" />
        </label>
        {kind === 'smtp' ? <Mail channel={channel} /> : <Address kind={kind} channel={channel} />}
        {save.error && <Problem error={save.error} />}
        <footer>
          <Button onClick={onClose}>Cancel</Button>
          <Button acts type="submit" kind="primary" disabled={save.isPending}>
            {channel ? 'Save' : 'Add'}
          </Button>
        </footer>
      </form>
    </Dialog>
  )
}

function optionsOf(kind: Kind, form: FormData): Options {
  const text = (name: string) => String(form.get(name) ?? '').trim() || undefined
  if (kind === 'smtp')
    return {
      host: text('host'),
      port: text('port') ? Number(text('port')) : undefined,
      security: text('security') as Options['security'],
      username: text('username'),
      password: text('password'),
      from: text('from'),
      to: text('to')
        ?.split(',')
        .map((one) => one.trim())
        .filter(Boolean),
    } as Options
  return { url: text('url'), schedule_id: text('schedule') ? Number(text('schedule')) : undefined } as Options
}

function Mail({ channel }: { channel: Channel | null }) {
  const options = (channel?.options ?? {}) as Record<string, unknown>
  const known = (name: string) => (options[name] === undefined || options[name] === null ? '' : String(options[name]))
  return (
    <>
      <label className="field">
        <span>To</span>
        <input
          className="input"
          name="to"
          required
          defaultValue={Array.isArray(options.to) ? options.to.join(', ') : ''}
          placeholder="admin@example.org"
        />
      </label>
      <label className="field">
        <span>From</span>
        <input
          className="input"
          name="from"
          required
          defaultValue={known('from')}
          placeholder="backup@example.org"
          type="email"
        />
      </label>
      <div className="row">
        <label className="field grow first">
          <span>Mail server</span>
          <input className="input" name="host" required defaultValue={known('host')} placeholder="mail.example.org" />
        </label>
        <label className="field narrow">
          <span>Port</span>
          <input className="input" name="port" type="number" min={1} max={65535} defaultValue={known('port')} />
        </label>
        <label className="field">
          <span>Protected by</span>
          <select className="input" name="security" defaultValue={known('security') || 'starttls'}>
            <option value="starttls">STARTTLS</option>
            <option value="tls">TLS</option>
            <option value="none">nothing</option>
          </select>
        </label>
      </div>
      <div className="row">
        <label className="field grow">
          <span>User name</span>
          <input className="input" name="username" defaultValue={known('username')} autoComplete="off" />
        </label>
        <label className="field grow">
          <span>Password</span>
          <input
            className="input"
            name="password"
            type="password"
            autoComplete="new-password"
            placeholder={channel?.secret_options.includes('password') ? 'unchanged' : ''}
          />
        </label>
      </div>
    </>
  )
}

function Address({ kind, channel }: { kind: Kind; channel: Channel | null }) {
  const secret = channel?.secret_options.includes('url')
  const schedules = useQuery({
    queryKey: keys.schedules,
    queryFn: () => data(api.GET('/api/schedules/')),
    enabled: kind === 'ping',
  })
  const options = (channel?.options ?? {}) as Record<string, unknown>
  return (
    <>
      <label className="field">
        <span>Address</span>
        <input
          className="input mono"
          name="url"
          required={!channel}
          defaultValue={secret ? '' : String(options.url ?? '')}
          placeholder={secret ? 'unchanged' : kind === 'apprise' ? 'tgram://token/chat' : 'https://hooks.example.org/…'}
        />
      </label>
      {kind === 'ping' && (
        <label className="field">
          <span>Schedule</span>
          <select className="input" name="schedule" required defaultValue={String(options.schedule_id ?? '')}>
            {(schedules.data?.schedules ?? []).map((one) => (
              <option key={one.id} value={one.id}>
                {one.name}
              </option>
            ))}
          </select>
        </label>
      )}
    </>
  )
}
