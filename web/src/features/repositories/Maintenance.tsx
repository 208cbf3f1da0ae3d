import { useMutation } from '@tanstack/react-query'
import { useNavigate } from '@tanstack/react-router'
import { useState } from 'react'
import { api, data, type Schemas } from '../../api/client'
import { counted } from '../../lib/numbers'
import { moment } from '../../lib/time'
import { refusalWord } from '../../lib/words'
import { Button } from '../../ui/Button'
import { Note, Problem } from '../../ui/States'
import { useInvalidate, useRepository, useRepositoryId } from './Repository'

export function Maintenance() {
  const id = useRepositoryId()
  const repository = useRepository(id).data
  if (!repository) return null
  return (
    <div className="stack">
      <Act
        refusal={repository.refusals.check}
        title="Check"
        words="Reads the repository's structure and finds damage before a restore does."
        button="Check now"
        run={() =>
          data(
            api.POST('/api/repositories/{repository_id}/check', { params: { path: { repository_id: id } }, body: {} }),
          )
        }
      />
      <Act
        refusal={repository.refusals.check}
        title="Check every byte"
        words="Reads and verifies all stored data. It takes as long as reading the whole repository."
        button="Verify all data"
        run={() =>
          data(
            api.POST('/api/repositories/{repository_id}/check', {
              params: { path: { repository_id: id } },
              body: { verify_data: true },
            }),
          )
        }
      />
      <Prune repository={repository} />
      <Act
        refusal={repository.refusals.compact}
        title="Compact"
        words="Frees the space of archives that were pruned or deleted."
        button="Compact now"
        run={() =>
          data(
            api.POST('/api/repositories/{repository_id}/compact', {
              params: { path: { repository_id: id } },
              body: {},
            }),
          )
        }
      />
      <Act
        refusal={repository.refusals.resync}
        title="Read the archive list again"
        words="For a repository that other programs write to as well."
        button="Resync"
        run={async () => {
          const answer = await data(
            api.POST('/api/repositories/{repository_id}/resync', { params: { path: { repository_id: id } } }),
          )
          return { job_id: answer.operations[0] }
        }}
      />
    </div>
  )
}

function Act({
  refusal,
  title,
  words,
  button,
  run,
}: {
  refusal?: string
  title: string
  words: string
  button: string
  run: () => Promise<{ job_id?: number }>
}) {
  const navigate = useNavigate()
  const start = useMutation({
    mutationFn: run,
    onSuccess: (answer) =>
      answer.job_id && void navigate({ to: '/operations/$id', params: { id: String(answer.job_id) } }),
  })
  return (
    <section className="card pad row">
      <div className="grow">
        <h2>{title}</h2>
        <p className="soft">{words}</p>
        {refusal && <p className="muted">{refusalWord(refusal)}</p>}
        {start.error && <Problem error={start.error} />}
      </div>
      <Button disabled={start.isPending || refusal !== undefined} onClick={() => start.mutate()}>
        {button}
      </Button>
    </section>
  )
}

const RULES = [
  ['keep_last', 'newest'],
  ['keep_hourly', 'hourly'],
  ['keep_daily', 'daily'],
  ['keep_weekly', 'weekly'],
  ['keep_monthly', 'monthly'],
  ['keep_yearly', 'yearly'],
] as const
type Rule = (typeof RULES)[number][0]

/** What a policy keeps and what it removes is shown before anything is removed. */
function Prune({ repository }: { repository: Schemas['RepositoryAnswer'] }) {
  const navigate = useNavigate()
  const refresh = useInvalidate(repository.id)
  const [policy, setPolicy] = useState<Partial<Record<Rule, number>>>(() =>
    Object.fromEntries(
      RULES.flatMap(([rule]) => (repository.retention[rule] ? [[rule, repository.retention[rule]]] : [])),
    ),
  )
  const path = { path: { repository_id: repository.id } }
  const refusal = repository.refusals.prune
  const empty = Object.values(policy).every((value) => !value)
  const preview = useMutation({
    mutationFn: async () => {
      const answer = await data(
        api.POST('/api/repositories/{repository_id}/prune', { params: path, body: { ...policy, dry_run: true } }),
      )
      return (answer as Schemas['PruneDryRun']).prune_result
    },
  })
  const prune = useMutation({
    mutationFn: () =>
      data(api.POST('/api/repositories/{repository_id}/prune', { params: path, body: { ...policy, dry_run: false } })),
    onSuccess: (answer) => {
      refresh()
      const job = (answer as Schemas['StartAnswer']).job_id
      if (job) void navigate({ to: '/operations/$id', params: { id: String(job) } })
    },
  })
  const result = preview.data
  return (
    <section className="card pad stack">
      <div>
        <h2>Prune</h2>
        <p className="soft">
          Removes archives that no rule keeps. First see which ones; nothing is removed by looking.
        </p>
      </div>
      <div className="row">
        {RULES.map(([rule, words]) => (
          <label key={rule} className="field narrow">
            <span>{words}</span>
            <input
              className="input"
              type="number"
              min={0}
              value={policy[rule] ?? ''}
              onChange={(event) => {
                setPolicy({ ...policy, [rule]: event.target.value ? Number(event.target.value) : undefined })
                preview.reset()
              }}
            />
          </label>
        ))}
        <Button disabled={preview.isPending || empty || refusal !== undefined} onClick={() => preview.mutate()}>
          {preview.isPending ? 'Asking the engine…' : 'Show what it would remove'}
        </Button>
      </div>
      {refusal && <p className="muted">{refusalWord(refusal)}</p>}
      {preview.error && <Problem error={preview.error} />}
      {result && (
        <>
          <p>
            Keeps <b>{counted(result.keep.length, 'archive')}</b>, removes{' '}
            <b>{counted(result.prune.length, 'archive')}</b>.
          </p>
          {result.prune.length > 0 && (
            <details open={result.prune.length <= 12}>
              <summary>What would be removed</summary>
              <ul>
                {result.prune.slice(0, 200).map((one) => (
                  <li key={one.archive}>
                    {moment(one.time)}: {one.archive}
                  </li>
                ))}
              </ul>
            </details>
          )}
          {result.keep.length > 0 && (
            <details>
              <summary>What stays, and why</summary>
              <ul>
                {result.keep.slice(0, 200).map((one) => (
                  <li key={one.archive}>
                    {moment(one.time)}: {one.rule}
                  </li>
                ))}
              </ul>
            </details>
          )}
          {result.prune.length > 0 ? (
            <div className="row">
              <Note warn>Files that exist only in those archives will exist nowhere afterwards.</Note>
              <Button kind="danger" disabled={prune.isPending} onClick={() => prune.mutate()}>
                Remove {counted(result.prune.length, 'archive')}
              </Button>
            </div>
          ) : (
            <p className="muted">Nothing to remove.</p>
          )}
          {prune.error && <Problem error={prune.error} />}
        </>
      )}
    </section>
  )
}
