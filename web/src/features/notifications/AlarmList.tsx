import { useInfiniteQuery, useMutation, useQueryClient } from '@tanstack/react-query'
import { Link } from '@tanstack/react-router'
import { type FormEvent, useState } from 'react'
import { api, data, type Schemas } from '../../api/client'
import { keys } from '../../api/keys'
import { moment } from '../../lib/time'
import { Age } from '../../ui/Age'
import { Button } from '../../ui/Button'
import { Dialog } from '../../ui/Dialog'
import { Glyph } from '../../ui/Glyph'
import { Empty, Loaded, Problem } from '../../ui/States'

type Alarm = Schemas['AlarmItem']

const STATES = [
  ['open', 'Open'],
  ['acknowledged', 'Acknowledged'],
  ['cleared', 'Cleared'],
] as const

/** Open alarms. An alarm clears when the evidence is good again. */
export function AlarmList() {
  const [state, setState] = useState<Alarm['state']>('open')
  const [chosen, setChosen] = useState<Alarm | null>(null)
  const query = useInfiniteQuery({
    queryKey: [...keys.alarms, 'list', state],
    queryFn: ({ pageParam }) =>
      data(api.GET('/api/alarms', { params: { query: { state: [state], limit: 50, cursor: pageParam } as never } })),
    initialPageParam: undefined as string | undefined,
    getNextPageParam: (page) => page.next_cursor ?? undefined,
  })
  return (
    <>
      <div className="row filters">
        {STATES.map(([name, words]) => (
          <button
            type="button"
            className="chip"
            key={name}
            aria-pressed={state === name}
            onClick={() => setState(name)}
          >
            {words}
          </button>
        ))}
      </div>
      <Loaded query={query} height={200}>
        {(pages) => {
          const alarms = pages.pages.flatMap((page) => page.alarms)
          if (alarms.length === 0)
            return (
              <Empty command="holdfast alarms list">
                {state === 'open' ? (
                  <span className="evidence wrap">
                    <Glyph name="ok" /> <span>No open alarms. The evidence is checked every minute.</span>
                  </span>
                ) : (
                  'None.'
                )}
              </Empty>
            )
          return (
            <>
              <ul className="card needs rows">
                {alarms.map((one) => (
                  <Row key={one.id} alarm={one} onPutOff={() => setChosen(one)} />
                ))}
              </ul>
              {query.hasNextPage && (
                <p className="more">
                  <Button onClick={() => void query.fetchNextPage()}>Show older</Button>
                </p>
              )}
            </>
          )
        }}
      </Loaded>
      {chosen && <PutOff alarm={chosen} onClose={() => setChosen(null)} />}
    </>
  )
}

function Row({ alarm, onPutOff }: { alarm: Alarm; onPutOff: () => void }) {
  return (
    <li className="needs-row">
      <Glyph name={alarm.state === 'cleared' ? 'ok' : alarm.severity === 'critical' ? 'bad' : 'warn'} />
      <div>
        {alarm.message}
        <p>
          began <Age at={alarm.since} words />
          {alarm.cleared_at && (
            <>
              , cleared <Age at={alarm.cleared_at} words />
            </>
          )}
          {alarm.state === 'acknowledged' && (
            <>
              , acknowledged{alarm.acknowledged_by ? ` by ${alarm.acknowledged_by}` : ''}
              {alarm.acknowledged_until ? ` until ${moment(alarm.acknowledged_until)}` : ' until it gets worse'}
              {alarm.comment ? `: ${alarm.comment}` : ''}
            </>
          )}
          {!alarm.evidence_known && ', evidence missing'}
        </p>
      </div>
      <div className="row acts">
        {alarm.repository_id && (
          <Link to="/repositories/$id" params={{ id: String(alarm.repository_id) }} className="button small">
            Open
          </Link>
        )}
        {alarm.state !== 'cleared' && (
          <Button small onClick={onPutOff}>
            Acknowledge…
          </Button>
        )}
      </div>
    </li>
  )
}

const SPANS = [
  ['24', 'a day'],
  ['72', 'three days'],
  ['168', 'a week'],
  ['', 'until it gets worse or clears'],
] as const

function PutOff({ alarm, onClose }: { alarm: Alarm; onClose: () => void }) {
  const client = useQueryClient()
  const put = useMutation({
    mutationFn: (form: FormData) => {
      const hours = Number(form.get('hours'))
      return data(
        api.POST('/api/alarms/{alarm_id}/acknowledge', {
          params: { path: { alarm_id: alarm.id } },
          body: {
            until: hours ? new Date(Date.now() + hours * 3_600_000).toISOString() : null,
            comment: String(form.get('comment')).trim() || null,
          },
        }),
      )
    },
    onSuccess: () => {
      void client.invalidateQueries({ queryKey: keys.alarms })
      onClose()
    },
  })
  const submit = (event: FormEvent<HTMLFormElement>) => {
    event.preventDefault()
    put.mutate(new FormData(event.currentTarget))
  }
  return (
    <Dialog title="Acknowledge this alarm" onClose={onClose}>
      <form className="stack" onSubmit={submit}>
        <p>{alarm.message}</p>
        <label className="field">
          <span>For how long</span>
          <select className="input" name="hours" defaultValue="24">
            {SPANS.map(([value, words]) => (
              <option key={value} value={value}>
                {words}
              </option>
            ))}
          </select>
          <small>It returns earlier if it gets worse.</small>
        </label>
        <label className="field">
          <span>Why</span>
          <input className="input" name="comment" placeholder="the new disk comes on Monday" maxLength={500} />
        </label>
        {put.error && <Problem error={put.error} />}
        <footer>
          <Button onClick={onClose}>Cancel</Button>
          <Button acts type="submit" kind="primary" disabled={put.isPending}>
            Acknowledge
          </Button>
        </footer>
      </form>
    </Dialog>
  )
}
