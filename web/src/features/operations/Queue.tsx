import { useMutation, useQuery, useQueryClient } from '@tanstack/react-query'
import { Link } from '@tanstack/react-router'
import { api, data, type Schemas } from '../../api/client'
import { keys } from '../../api/keys'
import { useMe } from '../../layout/Shell'
import { kindWord, statusOf, waitWord } from '../../lib/words'
import { Bar } from '../../ui/Bar'
import { Button } from '../../ui/Button'
import { Glyph } from '../../ui/Glyph'
import { Empty, Loaded } from '../../ui/States'

const GROUPS = [
  ['backup', 'Backups', 'max_running_backups'],
  ['restore', 'Restores', 'max_running_restores'],
  ['maintenance', 'Maintenance', 'max_running_maintenance'],
  ['index', 'Index', 'max_running_index'],
] as const

export function Queue() {
  const query = useQuery({ queryKey: keys.queue, queryFn: () => data(api.GET('/api/operations/queue')) })
  return (
    <main>
      <h1 className="gap">Queue</h1>
      <Loaded query={query} height={300}>
        {(queue) => (
          <div className="stack">
            {queue.repositories.length === 0 && (
              <Empty command="holdfast backup NAME">Nothing is running or waiting.</Empty>
            )}
            {queue.repositories.map((lane) => (
              <Lane key={lane.repository_id ?? 'none'} lane={lane} />
            ))}
            <Limits queue={queue} />
          </div>
        )}
      </Loaded>
    </main>
  )
}

function Lane({ lane }: { lane: Schemas['LaneQueue'] }) {
  return (
    <section className="card lane-card" aria-label={lane.repository_name ?? 'Without a repository'}>
      <h2>
        {lane.repository_id ? (
          <Link to="/repositories/$id" params={{ id: String(lane.repository_id) }}>
            {lane.repository_name}
          </Link>
        ) : (
          'Without a repository'
        )}
      </h2>
      <div className="grow">
        {lane.operations.map((operation) => (
          <Row key={operation.id} operation={operation} />
        ))}
      </div>
    </section>
  )
}

function Row({ operation }: { operation: Schemas['OperationItem'] }) {
  const client = useQueryClient()
  const cancel = useMutation({
    mutationFn: () =>
      data(api.POST('/api/operations/{operation_id}/cancel', { params: { path: { operation_id: operation.id } } })),
    onSettled: () => void client.invalidateQueries({ queryKey: keys.queue }),
  })
  const running = operation.status === 'running'
  return (
    <div className="queue-row">
      <Glyph name={statusOf(operation.status).glyph} />
      <Link to="/operations/$id" params={{ id: String(operation.id) }}>
        <b>{kindWord(operation.kind)}</b> <span className="muted number">#{operation.id}</span>
      </Link>
      <div className="grow">
        {running ? (
          <Bar percent={operation.progress_percent} label={kindWord(operation.kind)} />
        ) : (
          <span className="soft">{waitWord(operation)}</span>
        )}
      </div>
      <Button acts small disabled={cancel.isPending || operation.cancel_requested} onClick={() => cancel.mutate()}>
        {operation.cancel_requested ? 'Stopping…' : 'Cancel'}
      </Button>
    </div>
  )
}

function Limits({ queue }: { queue: Schemas['Queue'] }) {
  const { data: me } = useMe()
  const client = useQueryClient()
  const toggle = useMutation({
    mutationFn: () => data(queue.paused ? api.POST('/api/operations/resume') : api.POST('/api/operations/pause')),
    onSettled: () => void client.invalidateQueries({ queryKey: keys.queue }),
  })
  const running = queue.limits.running as Record<string, number>
  return (
    <p className="row soft number limits">
      {GROUPS.map(([group, words, limit]) => (
        <span key={group}>
          {words} {running[group] ?? 0} of {queue.limits[limit]}
        </span>
      ))}
      <span>{queue.paused ? 'Follow-ups are paused' : 'Follow-ups run'}</span>
      {me?.role === 'admin' && (
        <Button acts small onClick={() => toggle.mutate()}>
          {queue.paused ? 'Resume' : 'Pause'}
        </Button>
      )}
    </p>
  )
}
