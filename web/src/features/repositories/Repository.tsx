import { useMutation, useQuery, useQueryClient } from '@tanstack/react-query'
import { Link, Outlet, useNavigate, useParams } from '@tanstack/react-router'
import { useState } from 'react'
import { api, data, type Schemas } from '../../api/client'
import { keys } from '../../api/keys'
import { useOverview } from '../../api/overview'
import { bytes, counted } from '../../lib/numbers'
import { Age } from '../../ui/Age'
import { Button } from '../../ui/Button'
import { Glyph, type GlyphName } from '../../ui/Glyph'
import { Loaded, Problem } from '../../ui/States'
import { Tabs } from '../../ui/Tabs'
import { Need } from '../overview/NeedsYou'
import { BackUp } from './acts'

export function useRepositoryId(): number {
  return Number((useParams({ strict: false }) as { id: string }).id)
}

export function useRepository(id: number) {
  return useQuery({
    queryKey: keys.repository(id),
    queryFn: () => data(api.GET('/api/repositories/{repository_id}', { params: { path: { repository_id: id } } })),
  })
}

const TABS = [
  ['', 'Archives'],
  ['/maintenance', 'Maintenance'],
  ['/mirror', 'Mirror'],
  ['/activity', 'Activity'],
  ['/settings', 'Settings'],
] as const

export function RepositoryFrame() {
  const id = useRepositoryId()
  const query = useRepository(id)
  return (
    <main>
      <Loaded query={query} height={300} page>
        {(repository) => (
          <>
            <div className="row titled" style={{ marginBottom: 4 }}>
              <h1 className="grow">{repository.name}</h1>
              <BackUp repository={repository} />
              <Link to="/files/$id" params={{ id: String(id) }} className="button">
                Browse files
              </Link>
              <Prove repository={repository} />
            </div>
            <p className="soft gap mono">{repository.path}</p>
            <Status id={id} />
            <Needs id={id} />
            <Tabs
              label="Parts of the repository"
              items={TABS.map(([end, name]) => [`/repositories/${id}${end}`, name] as const)}
            />
            <Outlet />
          </>
        )}
      </Loaded>
    </main>
  )
}

/** Why this repository is among those that need the user. */
function Needs({ id }: { id: number }) {
  const items = useOverview().data?.attention.filter((one) => one.repository_id === id) ?? []
  if (items.length === 0) return null
  return (
    <section className="card needs gap" aria-label="Needs attention">
      {items.map((item) => (
        <Need key={item.key} item={item} />
      ))}
    </section>
  )
}

function Prove({ repository }: { repository: Schemas['RepositoryAnswer'] }) {
  const navigate = useNavigate()
  const prove = useMutation({
    mutationFn: () =>
      data(
        api.POST('/api/repositories/{repository_id}/restore-check', {
          params: { path: { repository_id: repository.id } },
          body: {},
        }),
      ),
    onSuccess: (answer) => void navigate({ to: '/operations/$id', params: { id: String(answer.job_id) } }),
  })
  if (!repository.actions.includes('restore_check')) return null
  return (
    <>
      <Button acts disabled={prove.isPending} onClick={() => prove.mutate()}>
        Prove a restore
      </Button>
      {prove.error && <Problem error={prove.error} />}
    </>
  )
}

const NAMES: Record<string, string> = {
  backup: 'Backup',
  check: 'Check',
  prune: 'Prune',
  compact: 'Compact',
  restore_check: 'Restore proven',
  index: 'Index',
  mirror: 'Mirror',
}

function Status({ id }: { id: number }) {
  const query = useQuery({
    queryKey: keys.status(id),
    staleTime: 0,
    queryFn: () =>
      data(api.GET('/api/repositories/{repository_id}/status', { params: { path: { repository_id: id } } })),
  })
  return (
    <Loaded query={query} height={64}>
      {(status) => (
        <ul className="card cells gap">
          {status.cells.map((cell) => (
            <li key={cell.cell}>
              <span className="muted">{NAMES[cell.cell]}</span>
              <StatusCell cell={cell} />
            </li>
          ))}
        </ul>
      )}
    </Loaded>
  )
}

function StatusCell({ cell }: { cell: Schemas['StatusCell'] }) {
  const [glyph, state] = look(cell)
  const operation = cell.source?.startsWith('operation:') ? cell.source.slice(10) : null
  const words = cell.running
    ? 'now'
    : cell.status === 'never'
      ? 'never'
      : cell.status === 'unavailable'
        ? 'not possible'
        : null
  const shown = (
    <span className={`evidence ${state}`}>
      <Glyph name={glyph} />
      {cell.status === 'failed' && !cell.running && 'failed '}
      {words ?? (cell.completed_at ? <Age at={cell.completed_at} /> : cell.status)}
    </span>
  )
  const title =
    cell.threshold_days === null ? undefined : `Wanted at least every ${counted(cell.threshold_days, 'day')}`
  return operation ? (
    <Link to="/operations/$id" params={{ id: operation }} title={title}>
      {shown}
    </Link>
  ) : (
    <span title={title}>{shown}</span>
  )
}

function look(cell: Schemas['StatusCell']): [GlyphName, string] {
  if (cell.running) return ['run', '']
  if (cell.status === 'failed') return ['bad', 'failed']
  if (cell.status === 'never' || cell.status === 'unavailable' || cell.status === 'cancelled')
    return ['unknown', 'never']
  if (cell.overdue) return ['warn', 'overdue']
  return cell.status === 'completed_with_warnings' ? ['warn', 'warned'] : ['ok', '']
}

export function Sizes({ repository }: { repository: Schemas['RepositoryAnswer'] }) {
  const known = [
    repository.archive_count === null ? null : counted(repository.archive_count, 'archive'),
    repository.total_size === null ? null : `${bytes(repository.total_size)} of files`,
    repository.unique_size === null ? null : `${bytes(repository.unique_size)} stored`,
  ].filter(Boolean)
  return <span className="soft number">{known.join(' · ')}</span>
}

/** Delete several archives: the act is shown with what will be gone. */
export function useSelection(): { chosen: Set<number>; toggle: (id: number) => void; clear: () => void } {
  const [chosen, setChosen] = useState(new Set<number>())
  return {
    chosen,
    toggle: (id) =>
      setChosen((old) => {
        const next = new Set(old)
        if (!next.delete(id)) next.add(id)
        return next
      }),
    clear: () => setChosen(new Set()),
  }
}

export function useInvalidate(id: number): () => void {
  const client = useQueryClient()
  return () => void client.invalidateQueries({ queryKey: keys.repository(id) })
}
