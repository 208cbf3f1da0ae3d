import { useMutation, useQuery } from '@tanstack/react-query'
import { useNavigate } from '@tanstack/react-router'
import { useEffect, useState } from 'react'
import { api, data, type Schemas } from '../../api/client'
import { keys } from '../../api/keys'
import { bytes, counted } from '../../lib/numbers'
import { inWords, moment, shortDay } from '../../lib/time'
import { refusalWord } from '../../lib/words'
import { Button } from '../../ui/Button'
import { Note, Problem, Skeleton } from '../../ui/States'
import { useInvalidate } from './Repository'
import {
  ageWord,
  dayAhead,
  daysBetween,
  type Forecast,
  firstDay,
  isEmpty,
  isSame,
  marks,
  noForecastWord,
  originWord,
  type Policy,
  pastMarks,
  policyOf,
  RULES,
  type Simulated,
} from './retention'

const DEFAULT_DAYS = 90
const SPANS = [
  [30, '30 days'],
  [DEFAULT_DAYS, '90 days'],
  [365, '1 year'],
  [731, '2 years'],
] as const

/** Which archives stay: tried over the days to come, saved, and carried out, in that order. */
export function Retention({ repository }: { repository: Schemas['RepositoryAnswer'] }) {
  const saved = policyOf(repository.retention)
  const [policy, setPolicy] = useState<Policy>(saved)
  const [ahead, setAhead] = useState<number>(90)
  const refresh = useInvalidate(repository.id)
  const changed = !isSame(policy, saved)
  const path = { path: { repository_id: repository.id } }
  const save = useMutation({
    mutationFn: () =>
      data(
        api.PUT('/api/repositories/{repository_id}', {
          params: path,
          body: { retention: whole(policy, repository) } as Schemas['RepositoryChange'],
        }),
      ),
    onSuccess: refresh,
  })
  const mayChange = repository.refusals.change === undefined
  return (
    <section className="card pad stack" aria-labelledby="retention">
      <div>
        <h2 id="retention">Retention</h2>
        <p className="soft">Which archives to keep. Try rules here: nothing is removed until a prune.</p>
      </div>
      <div className="row">
        {RULES.map(([rule, words]) => (
          <label key={rule} className="field narrow">
            <span>{words}</span>
            <input
              className="input"
              type="number"
              min={0}
              max={100_000}
              value={policy[rule] ?? ''}
              onChange={(event) =>
                setPolicy({ ...policy, [rule]: event.target.value ? Number(event.target.value) : undefined })
              }
            />
          </label>
        ))}
        <label className="field">
          <span>look ahead</span>
          <select className="input" value={ahead} onChange={(event) => setAhead(Number(event.target.value))}>
            {SPANS.map(([days, words]) => (
              <option key={days} value={days}>
                {words}
              </option>
            ))}
          </select>
        </label>
      </div>
      {repository.retention.keep_within && (
        <p className="muted">Also kept: all archives of the last {repository.retention.keep_within}.</p>
      )}
      {isEmpty(policy) ? (
        <p className="muted">Set at least one rule, such as 7 daily and 4 weekly.</p>
      ) : (
        <Ahead
          key={ahead}
          id={repository.id}
          policy={whole(policy, repository)}
          saved={changed && !isEmpty(saved) ? whole(saved, repository) : null}
          days={ahead}
        />
      )}
      <Before id={repository.id} days={ahead} />
      <div className="row">
        <Button
          acts
          kind="primary"
          disabled={!changed || isEmpty(policy) || !mayChange || save.isPending}
          onClick={() => save.mutate()}
        >
          Save as this repository's rules
        </Button>
        {changed && <Button onClick={() => setPolicy(saved)}>Undo changes</Button>}
        {save.isSuccess && !changed && <span className="soft">Saved. They apply from the next prune.</span>}
        {!mayChange && <span className="muted">{refusalWord(repository.refusals.change ?? '')}</span>}
      </div>
      {save.error && <Problem error={save.error} />}
      <Prune key={JSON.stringify(policy)} repository={repository} policy={policy} />
    </section>
  )
}

/** With the rules of the repository that cannot be changed here: a prune applies them, too. */
const whole = (policy: Policy, repository: Schemas['RepositoryAnswer']) => ({
  ...repository.retention,
  ...Object.fromEntries(RULES.map(([rule]) => [rule, policy[rule] || null])),
})

/** A value once it has stayed the same for a moment: typing asks once. */
function useSettled<T>(value: T, milliseconds = 300): T {
  const [settled, setSettled] = useState(value)
  const text = JSON.stringify(value)
  useEffect(() => {
    const timer = setTimeout(() => setSettled(JSON.parse(text) as T), milliseconds)
    return () => clearTimeout(timer)
  }, [text, milliseconds])
  return settled
}

function Ahead({
  id,
  policy,
  saved,
  days,
}: {
  id: number
  policy: Schemas['Retention']
  saved: Schemas['Retention'] | null
  days: number
}) {
  const body = useSettled({ policy, compare_with: saved, until: days === DEFAULT_DAYS ? null : dayAhead(days) })
  const query = useQuery({
    queryKey: keys.retention(id, body),
    queryFn: () =>
      data(
        api.POST('/api/repositories/{repository_id}/retention/simulate', {
          params: { path: { repository_id: id } },
          body: body as Schemas['SimulationRequest'],
        }),
      ),
    placeholderData: (old) => old,
    retry: false,
  })
  if (query.error) return <Problem error={query.error} />
  const found = query.data
  if (!found) return <Skeleton height={120} />
  const all = [found.simulated, ...(found.compared ? [found.compared] : [])]
  const first = firstDay(all, found.until)
  return (
    <div className="stack" aria-busy={query.isFetching}>
      {found.compared && <Line title="Saved rules" simulated={found.compared} first={first} until={found.until} />}
      <Line
        title={found.compared ? 'These rules' : 'Restore points'}
        simulated={found.simulated}
        first={first}
        until={found.until}
      />
      <p className="muted">
        {counted(found.backups.count, 'backup')} to come, {originWord(found.backups.origin)}.
        {found.is_shortened &&
          ` Only until ${shortDay(found.until)}: there are too many backups to look further ahead.`}
      </p>
    </div>
  )
}

/** The days that have a restore point at the end, and what the policy does today. */
function Line({
  title,
  simulated,
  first,
  until,
}: {
  title: string
  simulated: Simulated
  first: string
  until: string
}) {
  const width = daysBetween(first, until)
  const points = simulated.days.reduce((sum, one) => sum + one.restore_points, 0)
  return (
    <div className="retention">
      <div className="row">
        <b>{title}</b>
        <span className="muted">
          {counted(points, 'restore point')} on {shortDay(until)}
          {simulated.oldest && `, the oldest of ${shortDay(simulated.oldest)}`}
        </span>
      </div>
      <svg
        viewBox={`0 0 ${width} 10`}
        preserveAspectRatio="none"
        role="img"
        aria-label={`${title}: restore points on ${counted(simulated.days.length, 'day')} from ${shortDay(first)} to ${shortDay(until)}`}
      >
        {marks(simulated, first).map((mark) => (
          <rect key={mark.day} x={mark.at + 0.1} width={0.8} height={10}>
            <title>{`${shortDay(mark.day)}: ${counted(mark.points, 'restore point')}`}</title>
          </rect>
        ))}
      </svg>
      <div className="row muted ends" aria-hidden="true">
        <span>{shortDay(first)}</span>
        <span>{shortDay(until)}</span>
      </div>
      <p className="soft">
        A prune today keeps <b>{counted(simulated.kept_now, 'archive')}</b> and removes <b>{simulated.removed_now}</b>.{' '}
        {simulated.gaps.length > 0 && (
          <>
            The longest time without a restore point will be{' '}
            {simulated.gaps.map((gap) => `${inWords(gap.worst_seconds)} ${ageWord(gap.age)}`).join(', ')}.
          </>
        )}
      </p>
      <Bytes forecast={simulated.forecast} />
      {simulated.losses && <Lost losses={simulated.losses} />}
    </div>
  )
}

function Bytes({ forecast }: { forecast: Forecast }) {
  if (forecast.reason) return <p className="muted">No forecast of its size: {noForecastWord(forecast.reason)}.</p>
  if (forecast.points.length === 0) return null
  return (
    <p className="soft">
      Size today {bytes(forecast.now ?? 0)};{' '}
      {forecast.points
        .map(
          (one) =>
            `on ${shortDay(one.day)} ${one.bytes === null ? '' : `${bytes(one.bytes)}, `}between ${bytes(one.low)} and ${bytes(one.high)}`,
        )
        .join('; ')}
      .
    </p>
  )
}

/** The restore points of past days: those that are left, and those that were there once. */
function Before({ id, days }: { id: number; days: number }) {
  const query = useQuery({
    queryKey: keys.retentionPast(id, days),
    queryFn: () =>
      data(
        api.GET('/api/repositories/{repository_id}/retention/past', {
          params: { path: { repository_id: id }, query: { days } },
        }),
      ),
  })
  const past = query.data
  if (!past || past.points_count === 0) return null
  const gone = past.points.filter((point) => point.gone_at !== null).length
  return (
    <div className="retention">
      <div className="row">
        <b>Past days</b>
        <span className="muted">
          {counted(past.points_count - gone, 'restore point')} left, {gone} gone
        </span>
      </div>
      <svg
        viewBox={`0 0 ${daysBetween(past.since, past.until)} 10`}
        preserveAspectRatio="none"
        role="img"
        aria-label={`Past days: ${counted(past.points_count, 'restore point')} from ${shortDay(past.since)} to ${shortDay(past.until)}, ${gone} of them gone`}
      >
        {pastMarks(past).map((mark) => (
          <rect key={mark.day} x={mark.at + 0.1} width={0.8} height={10} opacity={mark.left > 0 ? 1 : 0.35}>
            <title>{`${shortDay(mark.day)}: ${mark.left} left, ${mark.gone} gone`}</title>
          </rect>
        ))}
      </svg>
      <div className="row muted ends" aria-hidden="true">
        <span>{shortDay(past.since)}</span>
        <span>{shortDay(past.until)}</span>
      </div>
      {past.recorded_since.slice(0, 10) > past.since && (
        <p className="muted">
          Removals are recorded since {shortDay(past.recorded_since)}. Of earlier ones only prunes by this service are
          known.
        </p>
      )}
    </div>
  )
}

function Lost({ losses }: { losses: Schemas['Losses'] }) {
  if (losses.versions_lost === 0) return <p className="soft">Nothing would be lost: other archives have all of it.</p>
  const size = losses.freed_bytes_at_most
  return (
    <details>
      <summary>
        {counted(losses.paths_lost, 'file or folder', 'files and folders')} would be in no archive any more
        {size !== null && `, and ${bytes(size)} of older states`}
      </summary>
      {losses.sample.length > 0 ? (
        <ul>
          {losses.sample.map((one) => (
            <li key={one.path_b64 ?? one.path} className="mono">
              {one.path}
            </li>
          ))}
          {losses.next_cursor && <li>…</li>}
        </ul>
      ) : (
        <p className="soft">Only older states of files that other archives have.</p>
      )}
    </details>
  )
}

/** The engine has the last word: what it would remove is shown before anything is removed. */
function Prune({ repository, policy }: { repository: Schemas['RepositoryAnswer']; policy: Policy }) {
  const navigate = useNavigate()
  const refresh = useInvalidate(repository.id)
  const path = { path: { repository_id: repository.id } }
  const refusal = repository.refusals.prune
  const body = Object.fromEntries(RULES.map(([rule]) => [rule, policy[rule] ?? 0]))
  const preview = useMutation({
    mutationFn: async () => {
      const answer = await data(
        api.POST('/api/repositories/{repository_id}/prune', { params: path, body: { ...body, dry_run: true } }),
      )
      return (answer as Schemas['PruneDryRun']).prune_result
    },
  })
  const prune = useMutation({
    mutationFn: () =>
      data(api.POST('/api/repositories/{repository_id}/prune', { params: path, body: { ...body, dry_run: false } })),
    onSuccess: (answer) => {
      refresh()
      const job = (answer as Schemas['StartAnswer']).job_id
      if (job) void navigate({ to: '/operations/$id', params: { id: String(job) } })
    },
  })
  const result = preview.data
  return (
    <>
      <div className="row">
        <Button
          acts
          disabled={preview.isPending || isEmpty(policy) || refusal !== undefined}
          onClick={() => preview.mutate()}
        >
          {preview.isPending ? 'Asking the engine…' : 'Prune by these rules…'}
        </Button>
        <span className="muted">
          {refusal ? refusalWord(refusal) : 'You see what the engine would remove before anything is removed.'}
        </span>
      </div>
      {preview.error && <Problem error={preview.error} />}
      {result && (
        <>
          <p>
            The engine keeps <b>{counted(result.keep.length, 'archive')}</b> and removes{' '}
            <b>{counted(result.prune.length, 'archive')}</b>.
          </p>
          <Named title="What would be removed" open={result.prune.length <= 12} all={result.prune.map(removed)} />
          <Named title="What stays, and why" all={result.keep.map((one) => `${moment(one.time)}: ${one.rule}`)} />
          {result.prune.length > 0 ? (
            <div className="row">
              <Note warn>Files that exist only in those archives will exist nowhere afterwards.</Note>
              <Button acts kind="danger" disabled={prune.isPending} onClick={() => prune.mutate()}>
                Remove {counted(result.prune.length, 'archive')}
              </Button>
            </div>
          ) : (
            <p className="muted">Nothing to remove.</p>
          )}
          {prune.error && <Problem error={prune.error} />}
        </>
      )}
    </>
  )
}

const removed = (one: Schemas['ArchiveTime']) => `${moment(one.time)}: ${one.archive}`

function Named({ title, all, open }: { title: string; all: string[]; open?: boolean }) {
  if (all.length === 0) return null
  return (
    <details open={open}>
      <summary>{title}</summary>
      <ul>
        {all.slice(0, 200).map((text) => (
          <li key={text}>{text}</li>
        ))}
        {all.length > 200 && <li>and {all.length - 200} more</li>}
      </ul>
    </details>
  )
}
