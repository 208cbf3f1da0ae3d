import { useMutation, useQuery, useQueryClient } from '@tanstack/react-query'
import { type FormEvent, useState } from 'react'
import { api, data, type Schemas } from '../../api/client'
import { keys } from '../../api/keys'
import { moment, zone } from '../../lib/time'
import { Button } from '../../ui/Button'
import { Dialog } from '../../ui/Dialog'
import { Empty, Loaded, Problem } from '../../ui/States'

type Report = Schemas['ReportAnswer']
const DAYS: Record<string, string> = {
  mon: 'Monday',
  tue: 'Tuesday',
  wed: 'Wednesday',
  thu: 'Thursday',
  fri: 'Friday',
  sat: 'Saturday',
  sun: 'Sunday',
}

/** A summary each morning, also when all is well. */
export function Reports() {
  const client = useQueryClient()
  const query = useQuery({ queryKey: keys.reports, queryFn: () => data(api.GET('/api/notifications/reports')) })
  const [editing, setEditing] = useState<Report | 'new' | null>(null)
  const remove = useMutation({
    mutationFn: (id: number) =>
      data(api.DELETE('/api/notifications/reports/{report_id}', { params: { path: { report_id: id } } })),
    onSuccess: () => void client.invalidateQueries({ queryKey: keys.reports }),
  })
  return (
    <>
      <div className="head">
        <p className="soft grow">A summary that is also sent when all is well, so that silence means trouble.</p>
        <Button kind="primary" onClick={() => setEditing('new')}>
          Add report
        </Button>
      </div>
      {remove.error && <Problem error={remove.error} />}
      <Loaded query={query} height={160}>
        {({ reports }) =>
          reports.length === 0 ? (
            <Empty>
              No reports.{' '}
              <button type="button" className="link" onClick={() => setEditing('new')}>
                Every morning at 07:00
              </button>
            </Empty>
          ) : (
            <div className="stack">
              {reports.map((one) => (
                <section className="card pad row" key={one.id} aria-label={one.name}>
                  <div className="grow">
                    <h2>
                      {one.name} {!one.enabled && <span className="tag">off</span>}
                    </h2>
                    <p className="soft">
                      {one.period === 'weekly' ? `Every ${DAYS[one.weekday ?? 'mon']}` : 'Every day'} at {one.at} (
                      {one.timezone}). Next: {moment(one.next_at)}
                    </p>
                  </div>
                  <Button small onClick={() => setEditing(one)}>
                    Edit
                  </Button>
                  <Button acts small kind="plain" disabled={remove.isPending} onClick={() => remove.mutate(one.id)}>
                    Delete
                  </Button>
                </section>
              ))}
            </div>
          )
        }
      </Loaded>
      {editing && <Form report={editing === 'new' ? null : editing} onClose={() => setEditing(null)} />}
    </>
  )
}

function Form({ report, onClose }: { report: Report | null; onClose: () => void }) {
  const client = useQueryClient()
  const [period, setPeriod] = useState(report?.period ?? 'daily')
  const save = useMutation({
    mutationFn: (form: FormData) => {
      const body = {
        name: String(form.get('name')).trim(),
        period,
        at: String(form.get('at')),
        weekday: period === 'weekly' ? String(form.get('weekday')) : null,
        timezone: report?.timezone ?? zone,
        enabled: form.get('enabled') === 'on',
        destination_ids: report?.destination_ids ?? null,
        scope: report?.scope ?? {},
      } as unknown as Schemas['ReportBody']
      return report
        ? data(api.PUT('/api/notifications/reports/{report_id}', { params: { path: { report_id: report.id } }, body }))
        : data(api.POST('/api/notifications/reports', { body }))
    },
    onSuccess: () => {
      void client.invalidateQueries({ queryKey: keys.reports })
      onClose()
    },
  })
  const submit = (event: FormEvent<HTMLFormElement>) => {
    event.preventDefault()
    save.mutate(new FormData(event.currentTarget))
  }
  return (
    <Dialog title={report ? `Edit ${report.name}` : 'Add report'} onClose={onClose}>
      <form className="stack" onSubmit={submit}>
        <label className="field">
          <span>Name</span>
          <input className="input" name="name" required defaultValue={report?.name ?? 'Morning'} />
        </label>
        <div className="row">
          <label className="field">
            <span>How often</span>
            <select className="input" value={period} onChange={(event) => setPeriod(event.target.value)}>
              <option value="daily">every day</option>
              <option value="weekly">every week</option>
            </select>
          </label>
          {period === 'weekly' && (
            <label className="field">
              <span>Day</span>
              <select className="input" name="weekday" defaultValue={report?.weekday ?? 'mon'}>
                {Object.entries(DAYS).map(([value, words]) => (
                  <option key={value} value={value}>
                    {words}
                  </option>
                ))}
              </select>
            </label>
          )}
          <label className="field">
            <span>At ({report?.timezone ?? zone})</span>
            <input className="input" type="time" name="at" required defaultValue={report?.at ?? '07:00'} />
          </label>
        </div>
        <label className="choice">
          <input type="checkbox" name="enabled" defaultChecked={report?.enabled ?? true} />
          <span>On</span>
        </label>
        {save.error && <Problem error={save.error} />}
        <footer>
          <Button onClick={onClose}>Cancel</Button>
          <Button acts type="submit" kind="primary" disabled={save.isPending}>
            {report ? 'Save' : 'Add'}
          </Button>
        </footer>
      </form>
    </Dialog>
  )
}
