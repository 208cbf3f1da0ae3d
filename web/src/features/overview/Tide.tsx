import { useQuery } from '@tanstack/react-query'
import { Link, useNavigate } from '@tanstack/react-router'
import { api, data, type Schemas } from '../../api/client'
import { keys } from '../../api/keys'
import { clockTime, moment } from '../../lib/time'
import { kindWord, statusOf } from '../../lib/words'
import { useNow } from '../../ui/Age'
import { Problem } from '../../ui/States'

const WIDTH = 1214
const HEIGHT = 92
const HOUR = 3_600_000
const ROWS = 3
const KINDS = new Set(['backup', 'restore', 'check', 'prune', 'compact', 'restore_check', 'sync', 'wipe'])

type Operation = Schemas['OperationItem']

/** Every run of the last and the next 24 hours on one line of time. */
export function Tide() {
  const now = useNow()
  const navigate = useNavigate()
  const since = new Date(Math.floor(now / HOUR) * HOUR - 24 * HOUR).toISOString()
  const filter = { since, limit: 200 }
  const query = useQuery({
    queryKey: keys.operations({ tide: since }),
    queryFn: () => data(api.GET('/api/operations/', { params: { query: filter } })),
    placeholderData: (old) => old,
  })
  const until = new Date(Math.floor(now / HOUR) * HOUR + 25 * HOUR).toISOString()
  const planned = useQuery({
    queryKey: keys.planned(until),
    queryFn: () =>
      data(api.GET('/api/schedules/calendar', { params: { query: { since: new Date(now).toISOString(), until } } })),
    placeholderData: (old) => old,
  })
  const plans = (planned.data?.entries ?? []).filter((one) => Date.parse(one.due_at) > now && !one.outcome)
  const runs = (query.data?.items ?? []).filter((one) => KINDS.has(one.kind) && one.started_at)
  const done = runs.filter((one) => one.status.startsWith('completed')).length
  const failed = runs.filter((one) => one.status === 'failed').length
  const place = (at: number) => WIDTH / 2 + ((at - now) / (24 * HOUR)) * (WIDTH / 2)
  return (
    <section className="gap" aria-label="The last 24 hours">
      <div className="head">
        <h2>Yesterday and tomorrow</h2>
        <span className="muted wide-only">every run, last and next 24 hours</span>
        <span className="end row number">
          {query.data && (
            <Link to="/activity">
              {done}
              {query.data.next_cursor ? '+' : ''} done
            </Link>
          )}
          {failed > 0 && (
            <Link to="/activity" search={{ status: 'failed' }} style={{ color: 'var(--bad)' }}>
              {failed} failed
            </Link>
          )}
          {plans.length > 0 && <Link to="/schedules">{plans.length} planned</Link>}
        </span>
      </div>
      {(query.error ?? planned.error) && <Problem error={query.error ?? planned.error} />}
      <div className="card tide" aria-busy={query.isPending}>
        <svg
          width="100%"
          viewBox={`0 0 ${WIDTH} ${HEIGHT}`}
          role="img"
          aria-label={
            query.data ? `${done} runs done in the last 24 hours, ${failed} failed` : 'Runs are not loaded yet'
          }
        >
          {hours(now).map((at) => (
            <g key={at}>
              <line x1={place(at)} x2={place(at)} y1={6} y2={66} stroke="var(--line)" />
              <text x={place(at)} y={84} fontSize={11} fill="var(--ink3)" textAnchor="middle">
                {clockTime(new Date(at).toISOString())}
              </text>
            </g>
          ))}
          {runs.map((one) => (
            <Mark
              key={one.id}
              run={one}
              row={one.id % ROWS}
              place={place}
              now={now}
              open={() => void navigate({ to: '/operations/$id', params: { id: String(one.id) } })}
            />
          ))}
          {plans.slice(0, 200).map((one, index) => (
            <rect
              key={`${one.schedule_id}:${one.due_at}`}
              x={place(Date.parse(one.due_at))}
              y={12 + (index % ROWS) * 18}
              width={12}
              height={12}
              rx={3}
              fill="none"
              stroke="var(--edge)"
              strokeDasharray="3 2.5"
            >
              <title>{`${one.name}, ${moment(one.due_at)}`}</title>
            </rect>
          ))}
          <line x1={WIDTH / 2} x2={WIDTH / 2} y1={2} y2={70} stroke="var(--ink)" strokeWidth={1.5} />
          <text x={WIDTH / 2} y={84} fontSize={11} fill="var(--ink)" textAnchor="middle">
            now
          </text>
        </svg>
      </div>
    </section>
  )
}

function Mark({
  run,
  row,
  place,
  now,
  open,
}: {
  run: Operation
  row: number
  place: (at: number) => number
  now: number
  open: () => void
}) {
  const start = place(Date.parse(run.started_at as string))
  const end = place(run.completed_at ? Date.parse(run.completed_at) : now)
  const top = 12 + row * 18
  const title = `${kindWord(run.kind)} of ${run.repository ?? ''}: ${statusOf(run.status).word}, ${moment(run.started_at as string)}`
  const colour =
    run.status === 'failed'
      ? 'var(--bad)'
      : run.status === 'running'
        ? 'var(--run)'
        : run.status === 'completed_with_warnings'
          ? 'var(--warn-fill)'
          : run.status === 'completed'
            ? 'var(--h3)'
            : 'var(--edge)'
  return (
    // biome-ignore lint/a11y/noStaticElementInteractions: the activity page lists the same runs for keyboards and readers
    <rect
      x={start}
      y={top}
      width={Math.max(5, end - start)}
      height={12}
      rx={run.status === 'failed' ? 0 : 3}
      fill={colour}
      onClick={open}
      style={{ cursor: 'pointer' }}
    >
      <title>{title}</title>
    </rect>
  )
}

function hours(now: number): number[] {
  const first = Math.ceil((now - 24 * HOUR) / (6 * HOUR)) * 6 * HOUR
  const all = Array.from({ length: 8 }, (_, index) => first + index * 6 * HOUR)
  return all.filter((at) => Math.abs(at - now) > 1.5 * HOUR && Math.abs(at - now) < 23.5 * HOUR)
}
