import { useMutation, useQuery, useQueryClient } from '@tanstack/react-query'
import { type FormEvent, useState } from 'react'
import { api, data, type Schemas } from '../../api/client'
import { keys } from '../../api/keys'
import { moment, zone } from '../../lib/time'
import { Button } from '../../ui/Button'
import { Dialog } from '../../ui/Dialog'
import { Glyph } from '../../ui/Glyph'
import { Problem } from '../../ui/States'
import { type Chosen, chosenOf, STEPS, stepsOf } from './chosen'
import { cronOf, type Days, daysOf } from './cron'
import { ScriptSteps } from './ScriptSteps'
import { isScript, type ScriptStep, withScripts } from './scripts'

type Schedule = Schemas['ScheduleAnswer']

/** What, when, and what comes after the backup; with the next runs while one still chooses. */
export function ScheduleForm({ schedule, onClose }: { schedule: Schedule | null; onClose: () => void }) {
  const client = useQueryClient()
  const repositories = useQuery({ queryKey: keys.repositories, queryFn: () => data(api.GET('/api/repositories/')) })
  const [begun] = useState(() => daysOf(schedule?.cron_expression ?? '0 2 * * *'))
  const [name, setName] = useState(schedule?.name ?? 'Every night')
  const [time, setTime] = useState(begun.time)
  const [days, setDays] = useState<Days>(begun.days)
  const [own, setOwn] = useState(schedule?.cron_expression ?? '0 2 * * *')
  const [timezone, setTimezone] = useState(schedule?.timezone ?? zone)
  const [ids, setIds] = useState<number[] | null>(schedule?.targets.repository_ids ?? null)
  const [all, setAll] = useState(schedule?.targets.all === true)
  const [chosen, setChosen] = useState<Chosen>(() => chosenOf(schedule?.steps ?? null))
  const [scripts, setScripts] = useState(() => (schedule?.steps ?? []).filter(isScript) as unknown as ScriptStep[])
  const known = repositories.data?.repositories ?? []
  const picked = ids ?? (schedule ? [] : known.map((one) => one.id))
  const timed = !schedule || schedule.schedule_mode === 'cron'
  const body = {
    name,
    ...(timed ? { timezone, cron_expression: days === 'own' ? own : cronOf(time, days) } : {}),
    ...(schedule?.targets.labels ? {} : { targets: all ? { all: true } : { repository_ids: picked } }),
    steps: withScripts(stepsOf(chosen, schedule?.steps ?? []), scripts),
  }
  const ready = all || picked.length > 0 || Boolean(schedule?.targets.labels)
  const preview = useQuery({
    queryKey: ['schedule-preview', body, schedule?.id],
    queryFn: () =>
      data(
        api.POST('/api/schedules/preview', {
          body: { ...(schedule ? whole(schedule) : {}), ...body, count: 5 } as never,
        }),
      ),
    enabled: ready && timed,
    retry: false,
    placeholderData: (old) => old,
  })
  const save = useMutation({
    mutationFn: () =>
      schedule
        ? data(
            api.PUT('/api/schedules/{schedule_id}', {
              params: { path: { schedule_id: schedule.id } },
              body: { ...body, revision: schedule.revision } as unknown as Schemas['ScheduleChange'],
            }),
          )
        : data(api.POST('/api/schedules/', { body: body as unknown as Schemas['NewSchedule'] })),
    onSuccess: () => {
      void client.invalidateQueries({ queryKey: keys.schedules })
      onClose()
    },
  })
  const submit = (event: FormEvent) => {
    event.preventDefault()
    save.mutate()
  }
  return (
    <Dialog title={schedule ? `Edit ${schedule.name}` : 'New schedule'} onClose={onClose}>
      <form className="stack" onSubmit={submit}>
        <label className="field">
          <span>Name</span>
          <input className="input" value={name} onChange={(event) => setName(event.target.value)} required />
        </label>
        {schedule?.targets.labels ? (
          <p className="soft">
            Every repository with{' '}
            {Object.entries(schedule.targets.labels)
              .map(([label, value]) => `${label}=${value}`)
              .join(', ')}
          </p>
        ) : (
          <fieldset className="plain">
            <legend>What</legend>
            <label className="choice">
              <input type="checkbox" checked={all} onChange={(event) => setAll(event.target.checked)} />
              <span>all repositories, also those to come</span>
            </label>
            {!all && (
              <div className="pick">
                {known.map((one) => (
                  <label className="choice" key={one.id}>
                    <input
                      type="checkbox"
                      checked={picked.includes(one.id)}
                      onChange={(event) =>
                        setIds(event.target.checked ? [...picked, one.id] : picked.filter((id) => id !== one.id))
                      }
                    />
                    <span>{one.name}</span>
                  </label>
                ))}
              </div>
            )}
          </fieldset>
        )}
        {timed ? (
          <div className="row">
            <label className="field">
              <span>When</span>
              <select className="input" value={days} onChange={(event) => setDays(event.target.value as Days)}>
                <option value="daily">Every day</option>
                <option value="weekdays">Monday to Friday</option>
                <option value="weekly">Every Sunday</option>
                <option value="hourly">Every hour</option>
                <option value="own">A pattern of your own</option>
              </select>
            </label>
            {days === 'own' && (
              <label className="field grow">
                <span>Cron pattern</span>
                <input className="input mono" value={own} onChange={(event) => setOwn(event.target.value)} required />
              </label>
            )}
            {days !== 'hourly' && days !== 'own' && (
              <label className="field">
                <span>At</span>
                <input
                  className="input"
                  type="time"
                  value={time}
                  onChange={(event) => setTime(event.target.value)}
                  required
                />
              </label>
            )}
            <label className="field grow">
              <span>Time zone</span>
              <input
                className="input"
                value={timezone}
                onChange={(event) => setTimezone(event.target.value)}
                required
              />
            </label>
          </div>
        ) : (
          <p className="soft">When: {schedule?.explained}. It is changed with `holdfast schedules change`.</p>
        )}
        <fieldset className="plain">
          <legend>After the backup</legend>
          <label className="choice">
            <input
              type="checkbox"
              checked={chosen.prune}
              onChange={(event) => setChosen({ ...chosen, prune: event.target.checked })}
            />
            <span>Remove old archives. Keep, of each:</span>
          </label>
          {chosen.prune && (
            <div className="row keeps">
              {(['daily', 'weekly', 'monthly', 'yearly'] as const).map((rule) => (
                <label className="field narrow" key={rule}>
                  <span>{rule}</span>
                  <input
                    className="input"
                    type="number"
                    min={0}
                    value={chosen.keep[rule]}
                    onChange={(event) =>
                      setChosen({ ...chosen, keep: { ...chosen.keep, [rule]: Number(event.target.value) } })
                    }
                  />
                </label>
              ))}
            </div>
          )}
          {chosen.prune && Object.values(chosen.keep).every((value) => value === 0) && (
            <p className="muted keeps">With none given, the rules of each repository apply.</p>
          )}
          {STEPS.map(([step, words]) => (
            <div className="row" key={step}>
              <label className="choice grow">
                <input
                  type="checkbox"
                  checked={chosen[step] !== null}
                  onChange={(event) => setChosen({ ...chosen, [step]: event.target.checked ? DEFAULT[step] : null })}
                />
                <span>{words}</span>
              </label>
              {chosen[step] !== null && step !== 'mirror' && (
                <label className="row soft">
                  {chosen[step] ? 'every' : 'at each run, or every'}{' '}
                  <input
                    className="input days"
                    type="number"
                    min={0}
                    aria-label={`${words}, days between`}
                    value={chosen[step] || ''}
                    onChange={(event) => setChosen({ ...chosen, [step]: Number(event.target.value) })}
                  />{' '}
                  days
                </label>
              )}
            </div>
          ))}
        </fieldset>
        <ScriptSteps steps={scripts} onChange={setScripts} />
        {timed && preview.data && (
          <section className="note" aria-live="polite" aria-label="Next runs">
            <div>
              <b>{preview.data.explained}</b>
              <p className="number">Next: {preview.data.fires.map((fire) => moment(fire.due_at)).join(' · ')}</p>
              {preview.data.warnings.map((one) => (
                <p key={one.key} className="evidence wrap">
                  <Glyph name="warn" /> {one.message}
                </p>
              ))}
            </div>
          </section>
        )}
        {preview.error && <Problem error={preview.error} />}
        {save.error && <Problem error={save.error} />}
        <footer>
          <Button onClick={onClose}>Cancel</Button>
          <Button acts type="submit" kind="primary" disabled={save.isPending || !ready}>
            {schedule ? 'Save' : 'Create'}
          </Button>
        </footer>
      </form>
    </Dialog>
  )
}

const DEFAULT = { compact: 7, check: 7, restore_check: 30, mirror: 0 } as const

/** What the form does not show stays as it is in the preview. */
function whole(schedule: Schedule): object {
  const { spread_minutes, start_within_minutes, windows, catch_up, overlap, retries, uuid } = schedule
  return { spread_minutes, start_within_minutes, windows, catch_up, overlap, retries, uuid }
}
