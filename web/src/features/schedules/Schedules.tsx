import { useMutation, useQuery, useQueryClient } from '@tanstack/react-query'
import { useNavigate, useSearch } from '@tanstack/react-router'
import { useState } from 'react'
import { api, data, type Schemas } from '../../api/client'
import { keys } from '../../api/keys'
import { useMe } from '../../layout/Shell'
import { moment, zone } from '../../lib/time'
import { statusOf } from '../../lib/words'
import { Button } from '../../ui/Button'
import { Confirm } from '../../ui/Confirm'
import { Glyph } from '../../ui/Glyph'
import { Empty, Loaded, Problem } from '../../ui/States'
import { Calendar } from './Calendar'
import { ScheduleForm } from './ScheduleForm'
import { useScripts } from './ScriptSteps'
import { stepWord } from './scripts'

type Schedule = Schemas['ScheduleAnswer']

export function Schedules() {
  const { new: wanted } = useSearch({ from: '/schedules' })
  const { data: me } = useMe()
  const may = me?.role !== 'viewer'
  const [editing, setEditing] = useState<Schedule | 'new' | null>(wanted === true ? 'new' : null)
  const query = useQuery({ queryKey: keys.schedules, queryFn: () => data(api.GET('/api/schedules/')) })
  return (
    <main>
      <div className="row gap">
        <h1 className="grow">Schedules</h1>
        {may && (
          <Button kind="primary" onClick={() => setEditing('new')}>
            New schedule
          </Button>
        )}
      </div>
      <Loaded query={query} height={240}>
        {({ schedules }) =>
          schedules.length === 0 ? (
            <Empty command="holdfast schedules create --help">
              Nothing is scheduled yet.{' '}
              {may && (
                <button type="button" className="link" onClick={() => setEditing('new')}>
                  Back up every night at 02:00
                </button>
              )}
            </Empty>
          ) : (
            <>
              <section className="gap" aria-label="Calendar">
                <div className="head">
                  <h2>Two weeks</h2>
                  <span className="muted">times in {zone}; planned runs are dashed</span>
                </div>
                <Calendar />
              </section>
              <div className="stack">
                {schedules.map((one) => (
                  <Row key={one.id} schedule={one} onEdit={() => setEditing(one)} />
                ))}
              </div>
            </>
          )
        }
      </Loaded>
      {editing && <ScheduleForm schedule={editing === 'new' ? null : editing} onClose={() => setEditing(null)} />}
    </main>
  )
}

function Row({ schedule, onEdit }: { schedule: Schedule; onEdit: () => void }) {
  const client = useQueryClient()
  const navigate = useNavigate()
  const refresh = () => void client.invalidateQueries({ queryKey: keys.schedules })
  const path = { path: { schedule_id: schedule.id } }
  const toggle = useMutation({
    mutationFn: () => data(api.POST('/api/schedules/{schedule_id}/toggle', { params: path })),
    onSuccess: refresh,
  })
  const snooze = useMutation({
    mutationFn: (until: string | null) =>
      data(api.POST('/api/schedules/{schedule_id}/snooze', { params: path, body: { until } })),
    onSuccess: refresh,
  })
  const run = useMutation({
    mutationFn: () => data(api.POST('/api/schedules/{schedule_id}/run', { params: path, body: {} as never })),
    onSuccess: (answer) => {
      refresh()
      const first = answer.runs[0]?.operations[0]
      if (first) void navigate({ to: '/operations/$id', params: { id: String(first) } })
    },
  })
  const remove = useMutation({
    mutationFn: () => data(api.DELETE('/api/schedules/{schedule_id}', { params: path })),
    onSuccess: refresh,
  })
  const [deleting, setDeleting] = useState(false)
  const scripts = useScripts().data?.scripts ?? []
  const last = schedule.last_result ? statusOf(schedule.last_result) : null
  return (
    <section className="card pad stack" aria-label={schedule.name}>
      <div className="row">
        <h2>{schedule.name}</h2>
        {!schedule.enabled && <span className="tag">off</span>}
        {schedule.snoozed_until && <span className="tag">snoozed until {moment(schedule.snoozed_until)}</span>}
        <span className="grow" />
        <Button acts small disabled={run.isPending} onClick={() => run.mutate()}>
          Run now
        </Button>
        <Button small onClick={onEdit}>
          Edit
        </Button>
        {schedule.snoozed_until ? (
          <Button acts small disabled={snooze.isPending} onClick={() => snooze.mutate(null)}>
            Wake
          </Button>
        ) : (
          <Button
            acts
            small
            disabled={snooze.isPending}
            onClick={() => snooze.mutate(new Date(Date.now() + 86_400_000).toISOString())}
          >
            Snooze a day
          </Button>
        )}
        <Button acts small disabled={toggle.isPending} onClick={() => toggle.mutate()}>
          {schedule.enabled ? 'Turn off' : 'Turn on'}
        </Button>
        <Button small kind="plain" onClick={() => setDeleting(true)}>
          Delete…
        </Button>
      </div>
      <p>
        {schedule.explained}
        {!schedule.explained.includes(schedule.timezone) && <span className="muted"> ({schedule.timezone})</span>}
      </p>
      <p className="soft">
        {schedule.steps.map((step) => stepWord(step, scripts)).join(' → ')} of{' '}
        {schedule.repositories.map((one) => one.name).join(', ') || 'no repository yet'}
      </p>
      <p className="soft number row">
        {schedule.next_run ? `Next: ${moment(schedule.next_run)}` : 'Nothing is due'}
        {schedule.last_run && (
          <span className="evidence">
            · Last: {moment(schedule.last_run)}
            {last && (
              <>
                <Glyph name={last.glyph} /> {last.word}
              </>
            )}
          </span>
        )}
      </p>
      {deleting && (
        <Confirm
          title={`Delete ${schedule.name}?`}
          act="Delete schedule"
          keep="Keep"
          busy={remove.isPending}
          error={remove.error}
          onAct={() => remove.mutate()}
          onClose={() => setDeleting(false)}
        >
          <p>Its archives are kept. It starts no further work.</p>
        </Confirm>
      )}
      {[toggle, snooze, run].map((one, index) => one.error && <Problem key={String(index)} error={one.error} />)}
    </section>
  )
}
