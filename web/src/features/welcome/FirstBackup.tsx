import { useMutation, useQuery, useQueryClient } from '@tanstack/react-query'
import { Link } from '@tanstack/react-router'
import { useEffect, useRef } from 'react'
import { api, data, type Schemas } from '../../api/client'
import { keys } from '../../api/keys'
import { bytes, counted } from '../../lib/numbers'
import { Bar } from '../../ui/Bar'
import { Button } from '../../ui/Button'
import { Glyph, type GlyphName } from '../../ui/Glyph'
import { Problem } from '../../ui/States'
import { facts } from '../overview/Active'
import { forget } from './draft'
import { readBack } from './readBack'
import { Panel, type Step } from './Welcome'

type Operation = Schemas['OperationDetail']

const ended = (one: Operation | undefined) => one !== undefined && one.status !== 'pending' && one.status !== 'running'
const good = (one: Operation | undefined) => one?.status === 'completed' || one?.status === 'completed_with_warnings'

function useOperation(id: number | null) {
  return useQuery({
    queryKey: keys.operation(id ?? 0),
    queryFn: () => data(api.GET('/api/operations/{operation_id}', { params: { path: { operation_id: id ?? 0 } } })),
    enabled: id !== null,
  })
}

/** The first backup, live; then a file comes back out of the repository and is shown. */
export function FirstBackup({ draft, change, go }: Step) {
  const repository = draft.repository
  const start = useMutation({
    mutationFn: () => data(api.POST('/api/backup/start', { body: { repository: draft.place } })),
    onSuccess: (answer) => change({ backup: answer.job_id }),
  })
  const begun = useRef(false)
  const wanted = repository !== null && draft.backup === null
  // biome-ignore lint/correctness/useExhaustiveDependencies: it is started only once
  useEffect(() => {
    if (!wanted || begun.current) return
    begun.current = true
    start.mutate()
  }, [wanted])
  const { data: backup } = useOperation(draft.backup)
  if (repository === null)
    return (
      <Panel title="The first backup" lead="No repositories yet." back={() => go('key')}>
        {null}
      </Panel>
    )
  const failed = ended(backup) && !good(backup)
  return (
    <Panel title={failed ? 'The backup failed' : 'First backup and verification'} lead={lead(backup)}>
      <ul className="card needs">
        <Line glyph={glyphOf(backup)} title="Back up" detail={backup && outcome(backup)}>
          {backup?.status === 'running' && <Bar percent={backup.progress_percent} label="Backup" />}
        </Line>
        {good(backup) && <Proof repository={repository} />}
      </ul>
      {start.error && <Problem error={start.error} retry={() => start.mutate()} />}
      {failed && backup && (
        <>
          <Problem error={new Error(backup.error_message ?? 'See the log.')} />
          <div className="row">
            <Button
              acts
              kind="primary"
              onClick={() => {
                change({ backup: null })
                start.mutate()
              }}
            >
              Try again
            </Button>
            <Link to="/operations/$id" params={{ id: String(backup.id) }} className="button">
              Log
            </Link>
          </div>
        </>
      )}
    </Panel>
  )
}

function lead(backup: Operation | undefined): string {
  if (!ended(backup)) return 'It is running. You can leave this page; it continues.'
  return good(backup) ? 'A backup is only worth what you can restore from it, so one file is now read back.' : ''
}

function glyphOf(operation: Operation | undefined): GlyphName {
  if (!ended(operation)) return 'run'
  return operation?.status === 'completed' ? 'ok' : good(operation) ? 'warn' : 'bad'
}

function outcome(backup: Operation): string {
  if (!ended(backup)) return facts(backup).words.join(' · ') || 'Starting…'
  const result = (backup.result?.stats ?? {}) as Record<string, unknown>
  const files = typeof result.nfiles === 'number' ? counted(result.nfiles, 'file') : null
  const size = typeof result.original_size === 'number' ? bytes(result.original_size) : null
  return [files, size].filter(Boolean).join(', ') || backup.status.replaceAll('_', ' ')
}

function Proof({ repository }: { repository: number }) {
  const client = useQueryClient()
  const archives = useQuery({
    queryKey: [...keys.archives(repository), 'first'],
    queryFn: () =>
      data(
        api.GET('/api/repositories/{repository_id}/archives', {
          params: { path: { repository_id: repository }, query: { limit: 1 } },
        }),
      ),
  })
  const archive = archives.data?.archives[0]
  const back = useQuery({
    queryKey: ['first-read-back', repository, archive?.id],
    queryFn: () => readBack(repository, archive?.id ?? 0),
    enabled: archive !== undefined,
    staleTime: Number.POSITIVE_INFINITY,
  })
  const prove = useMutation({
    mutationFn: () =>
      data(
        api.POST('/api/repositories/{repository_id}/restore-check', {
          params: { path: { repository_id: repository } },
          body: {},
        }),
      ),
  })
  const begun = useRef(false)
  const ready = back.data !== undefined
  // biome-ignore lint/correctness/useExhaustiveDependencies: it is started once, when the file is there
  useEffect(() => {
    if (!ready || begun.current) return
    begun.current = true
    prove.mutate()
  }, [ready])
  const { data: check } = useOperation(prove.data?.job_id ?? null)
  const proven = good(check)
  useEffect(() => {
    if (!proven) return
    forget()
    void client.invalidateQueries({ queryKey: keys.overview })
  }, [proven, client])
  return (
    <>
      <Line
        glyph={back.error ? 'bad' : back.data ? 'ok' : 'run'}
        title="Read one file back"
        detail={
          back.data ? (
            <>
              <span className="mono wrap">/{back.data.path}</span>, {bytes(back.data.size)} from the repository
            </>
          ) : back.data === null ? (
            'The backup contains no files.'
          ) : archive ? (
            'Opening the repository…'
          ) : (
            'Waiting for the archive list…'
          )
        }
      >
        {back.data?.text && (
          <pre className="preview" role="region" aria-label="Content of the file">
            {back.data.text}
          </pre>
        )}
        {back.error && <Problem error={back.error} retry={() => void back.refetch()} />}
      </Line>
      {(ready || check) && (
        <Line
          glyph={check && ended(check) && !proven ? 'bad' : proven ? 'ok' : 'run'}
          title={proven ? 'Proven restorable' : 'Prove the restore'}
          detail={
            proven && check
              ? proof(check)
              : check && ended(check)
                ? check.error_message
                : 'Reading files back and comparing…'
          }
        >
          {prove.error && <Problem error={prove.error} retry={() => prove.mutate()} />}
        </Line>
      )}
      {proven && (
        <li className="needs-row welcome-end">
          <span />
          <div>
            <b>All done.</b>
            <p>Now schedule it to run every night.</p>
          </div>
          <div className="row acts">
            <Link to="/" className="button">
              Overview
            </Link>
            <Link to="/schedules" search={{ new: true }} className="button primary">
              Back up every night
            </Link>
          </div>
        </li>
      )}
    </>
  )
}

function proof(check: Operation): string {
  const result = { ...check.detail, ...check.result } as Record<string, unknown>
  const files = result.files_proven ?? result.files_checked ?? result.nfiles
  return typeof files === 'number'
    ? `${counted(files, 'file')} read back and found identical.`
    : 'Files were read back.'
}

function Line({
  glyph,
  title,
  detail,
  children,
}: {
  glyph: GlyphName
  title: string
  detail: React.ReactNode
  children?: React.ReactNode
}) {
  return (
    <li className="needs-row welcome-line" aria-live="polite">
      <Glyph name={glyph} />
      <div>
        <b>{title}</b>
        <p className="number">{detail}</p>
        {children}
      </div>
    </li>
  )
}
