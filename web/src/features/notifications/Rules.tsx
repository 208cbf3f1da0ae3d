import { useMutation, useQuery, useQueryClient } from '@tanstack/react-query'
import { type FormEvent, useState } from 'react'
import { api, data, type Schemas } from '../../api/client'
import { keys } from '../../api/keys'
import { zone } from '../../lib/time'
import { Button } from '../../ui/Button'
import { Dialog } from '../../ui/Dialog'
import { Empty, Loaded, Problem } from '../../ui/States'
import { useChannels } from './Channels'
import { SEVERITY, sentence } from './words'

type Rule = Schemas['RuleAnswer']
type Body = Schemas['RuleBody']

export function Rules() {
  const query = useQuery({ queryKey: keys.rules, queryFn: () => data(api.GET('/api/notifications/rules')) })
  const channels = useChannels().data?.destinations ?? []
  const [editing, setEditing] = useState<Rule | 'new' | null>(null)
  return (
    <>
      <div className="head">
        <p className="soft grow">
          Which events are sent as messages. A problem is sent once, then again only if it changes.
        </p>
        <Button kind="primary" onClick={() => setEditing('new')}>
          Add rule
        </Button>
      </div>
      <Loaded query={query} height={160}>
        {({ rules, events }) => (
          <>
            {rules.length === 0 ? (
              <Empty>No rules, so nothing is sent.</Empty>
            ) : (
              <div className="stack">
                {rules.map((one) => (
                  <Row key={one.id} rule={one} channels={channels} onEdit={() => setEditing(one)} />
                ))}
              </div>
            )}
            {editing && (
              <Form
                rule={editing === 'new' ? null : editing}
                events={events}
                channels={channels}
                onClose={() => setEditing(null)}
              />
            )}
          </>
        )}
      </Loaded>
    </>
  )
}

/** A rule in the form of its route, with any changes. */
function bodyOf(rule: Rule): Body {
  const { id: _id, created_at: _made, updated_at: _changed, ...rest } = rule
  return rest as unknown as Body
}

function Row({ rule, channels, onEdit }: { rule: Rule; channels: { id: number; name: string }[]; onEdit: () => void }) {
  const client = useQueryClient()
  const refresh = () => void client.invalidateQueries({ queryKey: keys.rules })
  const path = { path: { rule_id: rule.id } }
  const toggle = useMutation({
    mutationFn: () =>
      data(
        api.PUT('/api/notifications/rules/{rule_id}', {
          params: path,
          body: { ...bodyOf(rule), enabled: !rule.enabled },
        }),
      ),
    onSuccess: refresh,
  })
  const remove = useMutation({
    mutationFn: () => data(api.DELETE('/api/notifications/rules/{rule_id}', { params: path })),
    onSuccess: refresh,
  })
  return (
    <section className="card pad row" aria-label={rule.name}>
      <div className="grow">
        <h2>
          {rule.name} {!rule.enabled && <span className="tag">off</span>}
        </h2>
        <p className="soft">{sentence(rule, channels)}</p>
        {(toggle.error ?? remove.error) && <Problem error={toggle.error ?? remove.error} />}
      </div>
      <Button small onClick={onEdit}>
        Edit
      </Button>
      <Button acts small disabled={toggle.isPending} onClick={() => toggle.mutate()}>
        {rule.enabled ? 'Turn off' : 'Turn on'}
      </Button>
      <Button acts small kind="plain" disabled={remove.isPending} onClick={() => remove.mutate()}>
        Delete
      </Button>
    </section>
  )
}

function Form({
  rule,
  events,
  channels,
  onClose,
}: {
  rule: Rule | null
  events: string[]
  channels: { id: number; name: string }[]
  onClose: () => void
}) {
  const client = useQueryClient()
  const [chosen, setChosen] = useState<string[]>(rule?.events ?? [])
  const [every, setEvery] = useState(rule?.destination_ids === null || rule === null)
  const [ids, setIds] = useState<number[]>(rule?.destination_ids ?? [])
  const [quiet, setQuiet] = useState(Boolean(rule?.quiet))
  const [send, setSend] = useState(rule?.send ?? 'change')
  const save = useMutation({
    mutationFn: (form: FormData) => {
      const body = {
        ...(rule ? bodyOf(rule) : {}),
        name: String(form.get('name')).trim(),
        events: chosen,
        least_severity: String(form.get('severity')),
        send,
        remind_hours: Number(form.get('remind') ?? rule?.remind_hours ?? 24),
        destination_ids: every ? null : ids,
        quiet: quiet
          ? {
              days: [],
              timezone: zone,
              ...(rule?.quiet ?? {}),
              from: String(form.get('from')),
              to: String(form.get('to')),
            }
          : null,
      } as unknown as Body
      return rule
        ? data(api.PUT('/api/notifications/rules/{rule_id}', { params: { path: { rule_id: rule.id } }, body }))
        : data(api.POST('/api/notifications/rules', { body }))
    },
    onSuccess: () => {
      void client.invalidateQueries({ queryKey: keys.rules })
      onClose()
    },
  })
  const submit = (event: FormEvent<HTMLFormElement>) => {
    event.preventDefault()
    save.mutate(new FormData(event.currentTarget))
  }
  const toggled = <T,>(list: T[], one: T) => (list.includes(one) ? list.filter((x) => x !== one) : [...list, one])
  return (
    <Dialog title={rule ? `Edit ${rule.name}` : 'Add rule'} onClose={onClose}>
      <form className="stack" onSubmit={submit}>
        <label className="field">
          <span>Name</span>
          <input className="input" name="name" required defaultValue={rule?.name ?? ''} />
        </label>
        <label className="field">
          <span>Minimum severity</span>
          <select className="input" name="severity" defaultValue={rule?.least_severity ?? 'warning'}>
            {Object.entries(SEVERITY).map(([value, words]) => (
              <option key={value} value={value}>
                {words}
              </option>
            ))}
          </select>
        </label>
        <details className="plain">
          <summary>{chosen.length ? `Events: ${chosen.join(', ')}` : 'All events; choose some'}</summary>
          <div className="row chips">
            {[...new Set([...events, ...chosen])].map((one) => (
              <button
                type="button"
                className="chip"
                key={one}
                aria-pressed={chosen.includes(one)}
                onClick={() => setChosen(toggled(chosen, one))}
              >
                {one}
              </button>
            ))}
          </div>
        </details>
        <fieldset className="plain">
          <legend>To</legend>
          <label className="choice">
            <input type="checkbox" checked={every} onChange={(event) => setEvery(event.target.checked)} />
            <span>all channels, including new ones</span>
          </label>
          {!every &&
            channels.map((one) => (
              <label className="choice" key={one.id}>
                <input type="checkbox" checked={ids.includes(one.id)} onChange={() => setIds(toggled(ids, one.id))} />
                <span>{one.name}</span>
              </label>
            ))}
        </fieldset>
        <div className="row">
          <label className="field">
            <span>When</span>
            <select className="input" value={send} onChange={(event) => setSend(event.target.value)}>
              <option value="change">when it starts, changes or ends</option>
              <option value="every">every time</option>
            </select>
          </label>
          {send === 'change' && (
            <label className="field">
              <span>Reminder after (hours)</span>
              <input
                className="input"
                type="number"
                min={0}
                max={8760}
                name="remind"
                defaultValue={rule?.remind_hours ?? 24}
              />
            </label>
          )}
        </div>
        <label className="choice">
          <input type="checkbox" checked={quiet} onChange={(event) => setQuiet(event.target.checked)} />
          <span>Quiet hours: non-critical messages wait until they end</span>
        </label>
        {quiet && (
          <div className="row">
            <label className="field">
              <span>From</span>
              <input
                className="input"
                type="time"
                name="from"
                required
                defaultValue={String(rule?.quiet?.from ?? '22:00')}
              />
            </label>
            <label className="field">
              <span>To ({String(rule?.quiet?.timezone ?? zone)})</span>
              <input
                className="input"
                type="time"
                name="to"
                required
                defaultValue={String(rule?.quiet?.to ?? '06:00')}
              />
            </label>
          </div>
        )}
        {save.error && <Problem error={save.error} />}
        <footer>
          <Button onClick={onClose}>Cancel</Button>
          <Button acts type="submit" kind="primary" disabled={save.isPending}>
            {rule ? 'Save' : 'Add'}
          </Button>
        </footer>
      </form>
    </Dialog>
  )
}
