import { useMutation, useQuery, useQueryClient } from '@tanstack/react-query'
import { useState } from 'react'
import { api, data, type Schemas } from '../../api/client'
import { keys } from '../../api/keys'
import { Age } from '../../ui/Age'
import { Button } from '../../ui/Button'
import { Confirm } from '../../ui/Confirm'
import { Glyph, type GlyphName } from '../../ui/Glyph'
import { Secret } from '../../ui/Secret'
import { Empty, Loaded, Problem } from '../../ui/States'
import { ChannelForm } from './ChannelForm'
import { KIND } from './words'

type Channel = Schemas['DestinationAnswer']

export function useChannels() {
  return useQuery({ queryKey: keys.channels, queryFn: () => data(api.GET('/api/notifications/destinations')) })
}

export function Channels() {
  const query = useChannels()
  const [editing, setEditing] = useState<Channel | 'new' | null>(null)
  const [secret, setSecret] = useState<string | null>(null)
  return (
    <>
      <div className="head">
        <p className="soft grow">Where messages go. New channels receive failures, warnings, alarms and recoveries.</p>
        <Button kind="primary" onClick={() => setEditing('new')}>
          Add channel
        </Button>
      </div>
      {secret && (
        <div className="gap">
          <Secret title="The secret that signs its messages; it is shown only once." value={secret} />
        </div>
      )}
      <Loaded query={query} height={200}>
        {({ destinations }) =>
          destinations.length === 0 ? (
            <Empty>
              No channels yet, so no messages are sent.{' '}
              <button type="button" className="link" onClick={() => setEditing('new')}>
                Send failures by email or to a chat
              </button>
            </Empty>
          ) : (
            <div className="stack">
              {destinations.map((one) => (
                <Row key={one.id} channel={one} onEdit={() => setEditing(one)} />
              ))}
            </div>
          )
        }
      </Loaded>
      {editing && (
        <ChannelForm
          channel={editing === 'new' ? null : editing}
          onClose={() => setEditing(null)}
          onSaved={(saved) => {
            setEditing(null)
            setSecret(saved.new_secret ?? null)
          }}
        />
      )}
    </>
  )
}

function state(channel: Channel): [GlyphName, string] {
  if (!channel.enabled) return ['unknown', 'off']
  if (channel.failing_since) return ['bad', 'failing']
  return channel.last_sent_at ? ['ok', 'delivers'] : ['unknown', 'nothing sent yet']
}

function Row({ channel, onEdit }: { channel: Channel; onEdit: () => void }) {
  const client = useQueryClient()
  const [deleting, setDeleting] = useState(false)
  const refresh = () => void client.invalidateQueries({ queryKey: ['notifications'] })
  const path = { path: { destination_id: channel.id } }
  const test = useMutation({
    mutationFn: () => data(api.POST('/api/notifications/destinations/{destination_id}/test', { params: path })),
    onSettled: refresh,
  })
  const toggle = useMutation({
    mutationFn: () =>
      data(
        api.PUT('/api/notifications/destinations/{destination_id}', {
          params: path,
          body: { enabled: !channel.enabled },
        }),
      ),
    onSuccess: refresh,
  })
  const remove = useMutation({
    mutationFn: () => data(api.DELETE('/api/notifications/destinations/{destination_id}', { params: path })),
    onSuccess: refresh,
  })
  const [glyph, word] = state(channel)
  return (
    <section className="card pad stack" aria-label={channel.name}>
      <div className="row">
        <h2>{channel.name}</h2>
        <span className="tag">{KIND[channel.kind] ?? channel.kind}</span>
        <span className={glyph === 'bad' ? 'evidence failed' : 'evidence soft'}>
          <Glyph name={glyph} /> {word}
          {channel.failing_since ? (
            <>
              {' '}
              for <Age at={channel.failing_since} />
            </>
          ) : channel.last_sent_at ? (
            <>
              , last <Age at={channel.last_sent_at} words />
            </>
          ) : null}
        </span>
        <span className="grow" />
        <Button acts small disabled={test.isPending} onClick={() => test.mutate()}>
          {test.isPending ? 'Sending…' : 'Send a test'}
        </Button>
        <Button small onClick={onEdit}>
          Edit
        </Button>
        <Button acts small disabled={toggle.isPending} onClick={() => toggle.mutate()}>
          {channel.enabled ? 'Turn off' : 'Turn on'}
        </Button>
        <Button small kind="plain" onClick={() => setDeleting(true)}>
          Delete…
        </Button>
      </div>
      <p className="soft mono wrap">{address(channel)}</p>
      {channel.last_error && channel.failing_since && <p className="soft wrap">{channel.last_error}</p>}
      {channel.disabled_reason && <p className="soft">{channel.disabled_reason}</p>}
      {channel.waiting > 0 && <p className="soft">{channel.waiting} waiting to be sent.</p>}
      {test.data && (
        <p className="evidence" role="status">
          <Glyph name={test.data.ok ? 'ok' : 'bad'} /> <span className="wrap">{test.data.message}</span>
        </p>
      )}
      {(test.error ?? toggle.error) && <Problem error={test.error ?? toggle.error} />}
      {deleting && (
        <Confirm
          title={`Delete ${channel.name}?`}
          act="Delete channel"
          keep="Keep"
          busy={remove.isPending}
          error={remove.error}
          onAct={() => remove.mutate()}
          onClose={() => setDeleting(false)}
        >
          <p>Its waiting messages will not be sent.</p>
        </Confirm>
      )}
    </section>
  )
}

function address(channel: Channel): string {
  const options = channel.options as Record<string, unknown>
  if (channel.kind === 'smtp') {
    const to = Array.isArray(options.to) ? options.to.join(', ') : String(options.to ?? '')
    return `${to} by ${options.host ?? ''}`
  }
  return String(options.url ?? '')
}
