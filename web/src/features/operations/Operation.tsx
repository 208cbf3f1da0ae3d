import { useMutation, useQuery, useQueryClient } from '@tanstack/react-query'
import { Link, useParams } from '@tanstack/react-router'
import { api, data, type Schemas } from '../../api/client'
import { keys } from '../../api/keys'
import { counted } from '../../lib/numbers'
import { duration, moment } from '../../lib/time'
import { kindWord, statusOf, waitWord } from '../../lib/words'
import { Advice } from '../../ui/Advice'
import { Age } from '../../ui/Age'
import { Bar } from '../../ui/Bar'
import { Button } from '../../ui/Button'
import { Glyph } from '../../ui/Glyph'
import { Loaded, Problem } from '../../ui/States'
import { facts } from '../overview/Active'
import { Log } from './Log'
import { Outcome } from './Outcome'

type Detail = Schemas['OperationDetail']

export function Operation() {
  const { id } = useParams({ strict: false }) as { id: string }
  const number = Number(id)
  const query = useQuery({
    queryKey: keys.operation(number),
    queryFn: () => data(api.GET('/api/operations/{operation_id}', { params: { path: { operation_id: number } } })),
  })
  return (
    <main className="wide">
      <Loaded query={query} height={400} page>
        {(operation) => <Shown operation={operation} />}
      </Loaded>
    </main>
  )
}

function Shown({ operation }: { operation: Detail }) {
  const status = statusOf(operation.status)
  const active = operation.status === 'pending' || operation.status === 'running'
  const progress = facts(operation)
  return (
    <div className="stack">
      <div className="row">
        <Glyph name={status.glyph} />
        <h1>
          {kindWord(operation.kind)}
          {operation.repository && ' of '}
          {operation.repository_id ? (
            <Link to="/repositories/$id" params={{ id: String(operation.repository_id) }} className="link">
              {operation.repository}
            </Link>
          ) : (
            (operation.package_name ?? operation.repository)
          )}{' '}
          <span className="muted number">#{operation.id}</span>
        </h1>
        <span className="soft">{operation.status === 'pending' ? waitWord(operation) : status.word}</span>
        <span className="grow" />
        {active && operation.actions.includes('cancel') && <Cancel operation={operation} />}
        {operation.actions.includes('retry') ? (
          <Again operation={operation} />
        ) : (
          !active && operation.kind === 'backup' && <Again operation={operation} another />
        )}
      </div>
      <p className="soft">
        {operation.started_at ? (
          <>Started {moment(operation.started_at)}</>
        ) : (
          <>Waiting since {moment(operation.created_at)}</>
        )}
        {operation.completed_at &&
          operation.duration_seconds !== null &&
          `, took ${duration(operation.duration_seconds)}`}
        {operation.schedule_name
          ? `, by the schedule ${operation.schedule_name}`
          : operation.triggered_by
            ? `, by ${operation.triggered_by}`
            : ''}
        .
      </p>
      {operation.status === 'running' && (
        <div className="card pad stack">
          <Bar percent={operation.progress_percent} label={kindWord(operation.kind)} />
          <div className="row number soft">
            <span>{progress.words.join(' · ') || 'Working…'}</span>
            <span className="grow" />
            <span>{progress.left}</span>
          </div>
          {typeof operation.progress_details.current_file === 'string' && (
            <code className="clip">{operation.progress_details.current_file}</code>
          )}
        </div>
      )}
      {operation.error_message && (
        <div className="note bad" role="alert">
          <Glyph name="bad" />
          <div>
            <b>{operation.error_message}</b>
            <p>
              <Advice error={operation.error_key} />
            </p>
            <p className="mono">{operation.error_key}</p>
          </div>
        </div>
      )}
      {operation.warnings.length > 0 && (
        <details className="note warn">
          <summary>
            <b>{counted(operation.warnings.length, 'warning')}</b>
          </summary>
          <ul>
            {operation.warnings.slice(0, 50).map((warning, index) => (
              // biome-ignore lint/suspicious/noArrayIndexKey: warnings have no identity
              <li key={index}>{String((warning as Record<string, unknown>).message ?? JSON.stringify(warning))}</li>
            ))}
          </ul>
        </details>
      )}
      <Outcome operation={operation} />
      {operation.run.length > 1 && <Run operation={operation} />}
      <Log operation={operation} />
    </div>
  )
}

function Run({ operation }: { operation: Detail }) {
  const ordered = [...operation.run].sort((one, other) => one.id - other.id)
  return (
    <nav className="row steps" aria-label="Steps of this run">
      {ordered.map((step, index) => (
        <span className="row" key={step.id}>
          {index > 0 && <span className="muted">→</span>}
          <Link
            to="/operations/$id"
            params={{ id: String(step.id) }}
            aria-current={step.id === operation.id ? 'step' : undefined}
            className="chip"
          >
            <Glyph name={statusOf(step.status).glyph} />
            {kindWord(step.kind)}
            {step.duration_seconds !== null && <span className="muted number">{duration(step.duration_seconds)}</span>}
          </Link>
        </span>
      ))}
    </nav>
  )
}

function Cancel({ operation }: { operation: Detail }) {
  const client = useQueryClient()
  const cancel = useMutation({
    mutationFn: () =>
      data(api.POST('/api/operations/{operation_id}/cancel', { params: { path: { operation_id: operation.id } } })),
    onSettled: () => void client.invalidateQueries({ queryKey: keys.operation(operation.id) }),
  })
  return (
    <>
      {cancel.error && <Problem error={cancel.error} />}
      <Button acts disabled={cancel.isPending || operation.cancel_requested} onClick={() => cancel.mutate()}>
        {operation.cancel_requested ? 'Stopping…' : 'Cancel'}
      </Button>
    </>
  )
}

/** Starts the same work once more; `another`: a new backup after one that succeeded. */
function Again({ operation, another = false }: { operation: Detail; another?: boolean }) {
  const client = useQueryClient()
  const retry = useMutation({
    mutationFn: () =>
      another
        ? data(api.POST('/api/backup/start', { body: { repository: operation.repository_path ?? '' } }))
        : data(api.POST('/api/operations/{operation_id}/retry', { params: { path: { operation_id: operation.id } } })),
    onSuccess: () => void client.invalidateQueries({ queryKey: keys.overview }),
  })
  if (retry.data)
    return (
      <Link to="/operations/$id" params={{ id: String(retry.data.job_id) }} className="button">
        Started: open #{retry.data.job_id}
      </Link>
    )
  return (
    <>
      {retry.error && <Problem error={retry.error} />}
      <Button acts disabled={retry.isPending} onClick={() => retry.mutate()}>
        {another ? 'Back up again' : 'Start again'}
      </Button>
    </>
  )
}

export function When({
  operation,
}: {
  operation: Pick<Schemas['OperationItem'], 'completed_at' | 'started_at' | 'created_at'>
}) {
  return <Age at={operation.completed_at ?? operation.started_at ?? operation.created_at} words />
}
