import { useMutation, useQuery, useQueryClient } from '@tanstack/react-query'
import { type FormEvent, useState } from 'react'
import { api, data, type Schemas } from '../../api/client'
import { keys } from '../../api/keys'
import { moment, zone } from '../../lib/time'
import { Button } from '../../ui/Button'
import { Dialog } from '../../ui/Dialog'
import { Problem } from '../../ui/States'
import { cronOf, type Days } from './cron'

/** The common case in one form; everything else is for the command line and the API. */
export function NewSchedule({ onClose }: { onClose: () => void }) {
  const client = useQueryClient()
  const repositories = useQuery({ queryKey: keys.repositories, queryFn: () => data(api.GET('/api/repositories/')) })
  const [name, setName] = useState('Every night')
  const [time, setTime] = useState('02:00')
  const [days, setDays] = useState<Days>('daily')
  const [chosen, setChosen] = useState<number[] | null>(null)
  const [keep, setKeep] = useState({ daily: 7, weekly: 4, monthly: 6 })
  const [prunes, setPrunes] = useState(true)
  const [checks, setChecks] = useState(true)
  const known = repositories.data?.repositories ?? []
  const ids = chosen ?? known.map((one) => one.id)
  const steps: Record<string, unknown>[] = [{ kind: 'backup' }]
  if (prunes)
    steps.push(
      { kind: 'prune', keep_daily: keep.daily, keep_weekly: keep.weekly, keep_monthly: keep.monthly },
      { kind: 'compact' },
    )
  if (checks) steps.push({ kind: 'check', every_days: 7 }, { kind: 'restore_check', every_days: 30 })
  const body = {
    name,
    timezone: zone,
    cron_expression: cronOf(time, days),
    targets: { repository_ids: ids },
    steps,
  } as unknown as Schemas['NewSchedule']
  const preview = useQuery({
    queryKey: ['schedule-preview', body],
    queryFn: () => data(api.POST('/api/schedules/preview', { body: { ...body, count: 2 } as never })),
    enabled: ids.length > 0,
    retry: false,
  })
  const create = useMutation({
    mutationFn: () => data(api.POST('/api/schedules/', { body })),
    onSuccess: () => {
      void client.invalidateQueries({ queryKey: keys.schedules })
      onClose()
    },
  })
  const submit = (event: FormEvent) => {
    event.preventDefault()
    create.mutate()
  }
  return (
    <Dialog title="New schedule" onClose={onClose}>
      <form className="stack" onSubmit={submit}>
        <label className="field">
          <span>Name</span>
          <input className="input" value={name} onChange={(event) => setName(event.target.value)} required />
        </label>
        <fieldset className="plain">
          <legend>What</legend>
          {known.map((one) => (
            <label className="choice" key={one.id}>
              <input
                type="checkbox"
                checked={ids.includes(one.id)}
                onChange={(event) =>
                  setChosen(event.target.checked ? [...ids, one.id] : ids.filter((id) => id !== one.id))
                }
              />
              <span>{one.name}</span>
            </label>
          ))}
        </fieldset>
        <div className="row">
          <label className="field">
            <span>When</span>
            <select className="input" value={days} onChange={(event) => setDays(event.target.value as Days)}>
              <option value="daily">Every day</option>
              <option value="weekdays">Monday to Friday</option>
              <option value="weekly">Every Sunday</option>
              <option value="hourly">Every hour</option>
            </select>
          </label>
          {days !== 'hourly' && (
            <label className="field">
              <span>At ({zone})</span>
              <input
                className="input"
                type="time"
                value={time}
                onChange={(event) => setTime(event.target.value)}
                required
              />
            </label>
          )}
        </div>
        <label className="choice">
          <input type="checkbox" checked={prunes} onChange={(event) => setPrunes(event.target.checked)} />
          <span>Remove old archives afterwards and free their space. Keep:</span>
        </label>
        {prunes && (
          <div className="row">
            {(['daily', 'weekly', 'monthly'] as const).map((rule) => (
              <label className="field narrow" key={rule}>
                <span>{rule}</span>
                <input
                  className="input"
                  type="number"
                  min={0}
                  value={keep[rule]}
                  onChange={(event) => setKeep({ ...keep, [rule]: Number(event.target.value) })}
                />
              </label>
            ))}
          </div>
        )}
        <label className="choice">
          <input type="checkbox" checked={checks} onChange={(event) => setChecks(event.target.checked)} />
          <span>Check the repository weekly, and prove a restore monthly</span>
        </label>
        {preview.data && (
          <p className="soft" aria-live="polite">
            {preview.data.explained}. Next: {preview.data.fires.map((fire) => moment(fire.due_at)).join(', then ')}
          </p>
        )}
        {preview.error && <Problem error={preview.error} />}
        {create.error && <Problem error={create.error} />}
        <footer>
          <Button onClick={onClose}>Cancel</Button>
          <Button type="submit" kind="primary" disabled={create.isPending || ids.length === 0}>
            Create
          </Button>
        </footer>
      </form>
    </Dialog>
  )
}
