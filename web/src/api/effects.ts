import type { QueryClient, QueryFilters } from '@tanstack/react-query'
import type { Schemas } from './client'
import { keys } from './keys'

type Detail = Schemas['OperationDetail']
type Updated = Schemas['OperationUpdatedEvent']

/** A moment in which many events of one name become one look at the service. */
const MOMENT = 250
/** Lists show progress less often than the page of an operation, which needs no look. */
const PROGRESS_MOMENT = 3000

/** What an event changes in the cache. */
export function take(client: QueryClient, name: string, body: Record<string, unknown>): void {
  if (name === 'operations.progress') {
    for (const { id, progress } of (body as Schemas['OperationsProgressEvent']).operations)
      client.setQueryData<Detail>(keys.operation(id), (old) => (old ? withProgress(old, progress) : old))
    soon(name, PROGRESS_MOMENT, () => look(client, keys.overview, keys.queue))
    return
  }
  if (name === 'hello') return
  if (name === 'operation.updated') {
    const updated = body as Updated
    changed.set(updated.operation.id, updated)
    if (updated.operation.repository_id !== null) touched.add(updated.operation.repository_id)
  }
  if (typeof body.repository_id === 'number') touched.add(body.repository_id)
  soon(name, MOMENT, () => lookAfter(client, name))
}

/** Repositories and operations that events have named since the last look. */
const touched = new Set<number>()
const changed = new Map<number, Updated>()

function lookAfter(client: QueryClient, name: string): void {
  if (name !== 'overview.updated' && name !== 'queue.updated') {
    look(client, ...[...touched].map(keys.repository))
    touched.clear()
  }
  if (name === 'overview.updated') look(client, keys.overview)
  else if (name === 'queue.updated') look(client, keys.queue)
  else if (name === 'reset') void refresh(client)
  else if (name === 'operation.updated') {
    const news = [...changed.values()]
    changed.clear()
    void refresh(client, { queryKey: ['operation'], predicate: ({ queryKey }) => isNews(client, queryKey, news) })
    look(client, ['operations'], ['evidence'], keys.packages, keys.schedules)
  } else if (name === 'repository.updated') look(client, keys.repositories, ['evidence'])
  else if (name === 'agent.updated') look(client, keys.machines)
  else if (name === 'user.updated') look(client, keys.users, keys.tokens)
  else if (name.startsWith('alarm.')) look(client, keys.alarms)
  else if (name.startsWith('notification.')) look(client, ['notifications'])
  else if (name.startsWith('schedule.')) look(client, keys.schedules)
}

function look(client: QueryClient, ...wanted: (readonly unknown[])[]): void {
  for (const queryKey of wanted) void refresh(client, { queryKey })
}

/**
 * Asks again for what is on the page. An answer that is under way may be older than the event: when it is the first one,
 * which the cache does not replace, it is asked for once more afterwards.
 */
export async function refresh(client: QueryClient, filters: QueryFilters = {}): Promise<void> {
  const first = client
    .getQueryCache()
    .findAll({ ...filters, fetchStatus: 'fetching' })
    .filter((query) => query.state.data === undefined)
  await client.invalidateQueries(filters)
  for (const { queryKey } of first) void client.invalidateQueries({ queryKey, exact: true })
}

/** Whether events tell more than a part of an operation's page, its log among them, shows already. */
function isNews(client: QueryClient, [, id, part]: readonly unknown[], news: Updated[]): boolean {
  if (part !== undefined) return news.some((one) => one.operation.id === id)
  const shown = client.getQueryData<Detail>(keys.operation(Number(id)))
  return news.some((one) => concerns(shown, one))
}

/** Whether an event changes what the page of an operation shows. Hundreds of others may run at the same time. */
export function concerns(shown: Detail | undefined, { operation, job_status }: Updated): boolean {
  if (shown === undefined) return true
  if (shown.id === operation.id)
    return (
      shown.status !== operation.status ||
      shown.attempt !== operation.attempt ||
      shown.cancel_requested !== operation.cancel_requested ||
      Boolean(job_status)
    )
  // One that waits may wait for any other; the steps of a run and what may be done belong to one repository.
  return shown.status === 'pending' || shown.repository_id === operation.repository_id
}

/** A running operation as its last report of progress shows it. */
function withProgress(operation: Detail, progress: Record<string, unknown>): Detail {
  const number = (name: string) => (typeof progress[name] === 'number' ? (progress[name] as number) : null)
  return {
    ...operation,
    progress_percent: number('progress_percent') ?? operation.progress_percent,
    progress_message: typeof progress.message === 'string' ? progress.message : operation.progress_message,
    progress_details: progress,
  }
}

const waiting = new Set<string>()

/** Many events of one name within a moment are one look at the service. */
function soon(name: string, wait: number, work: () => void): void {
  if (waiting.has(name)) return
  waiting.add(name)
  setTimeout(() => {
    waiting.delete(name)
    work()
  }, wait)
}
