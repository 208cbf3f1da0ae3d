import { useMutation, useQuery, useQueryClient } from '@tanstack/react-query'
import { useNavigate, useSearch } from '@tanstack/react-router'
import { useState } from 'react'
import { api, data, type Schemas } from '../../api/client'
import { keys } from '../../api/keys'
import { moment } from '../../lib/time'
import { kindWord, statusOf } from '../../lib/words'
import { Button } from '../../ui/Button'
import { Glyph } from '../../ui/Glyph'
import { Empty, Loaded, Problem } from '../../ui/States'
import { NewSchedule } from './NewSchedule'

type Schedule = Schemas['ScheduleAnswer']

export function Schedules() {
  const { new: wanted } = useSearch({ from: '/schedules' })
  const [creating, setCreating] = useState(wanted === true)
  const query = useQuery({ queryKey: keys.schedules, queryFn: () => data(api.GET('/api/schedules/')) })
  return (
    <main>
      <div className="row gap">
        <h1 className="grow">Schedules</h1>
        <Button kind="primary" onClick={() => setCreating(true)}>
          New schedule
        </Button>
      </div>
      <Loaded query={query} height={240}>
        {({ schedules }) =>
          schedules.length === 0 ? (
            <Empty command="holdfast schedules create --help">
              Nothing runs by itself yet.{' '}
              <button type="button" className="link" onClick={() => setCreating(true)}>
                Back up every night at 02:00
              </button>
            </Empty>
          ) : (
            <div className="stack">
              {schedules.map((one) => (
                <Row key={one.id} schedule={one} />
              ))}
            </div>
          )
        }
      </Loaded>
      {creating && <NewSchedule onClose={() => setCreating(false)} />}
    </main>
  )
}

function Row({ schedule }: { schedule: Schedule }) {
  const client = useQueryClient()
  const navigate = useNavigate()
  const refresh = () => void client.invalidateQueries({ queryKey: keys.schedules })
  const path = { path: { schedule_id: schedule.id } }
  const toggle = useMutation({
    mutationFn: () => data(api.POST('/api/schedules/{schedule_id}/toggle', { params: path })),
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
  const last = schedule.last_result ? statusOf(schedule.last_result) : null
  return (
    <section className="card pad stack" aria-label={schedule.name}>
      <div className="row">
        <h2>{schedule.name}</h2>
        {!schedule.enabled && <span className="tag">off</span>}
        {schedule.snoozed_until && <span className="tag">snoozed until {moment(schedule.snoozed_until)}</span>}
        <span className="grow" />
        <Button small disabled={run.isPending} onClick={() => run.mutate()}>
          Run now
        </Button>
        <Button small disabled={toggle.isPending} onClick={() => toggle.mutate()}>
          {schedule.enabled ? 'Switch off' : 'Switch on'}
        </Button>
        <Button
          small
          kind="plain"
          disabled={remove.isPending}
          onClick={() => window.confirm(`Delete the schedule ${schedule.name}? What it made stays.`) && remove.mutate()}
        >
          Delete
        </Button>
      </div>
      <p>
        {schedule.explained} <span className="muted">({schedule.timezone})</span>
      </p>
      <p className="soft">
        {schedule.steps.map((step) => kindWord(String(step.kind))).join(' → ')} of{' '}
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
      {[toggle, run, remove].map((one, index) => one.error && <Problem key={String(index)} error={one.error} />)}
    </section>
  )
}
