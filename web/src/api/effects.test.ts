import { QueryClient, QueryObserver } from '@tanstack/react-query'
import { expect, test, vi } from 'vitest'
import type { Schemas } from './client'
import { concerns, refresh, take } from './effects'
import { keys } from './keys'

type Detail = Schemas['OperationDetail']

const operation = (more: Partial<Detail> = {}) =>
  ({ id: 7, repository_id: 1, status: 'running', attempt: 1, cancel_requested: false, ...more }) as Detail
const event = (more: Partial<Detail> = {}, extra: object = {}) =>
  ({ operation: operation(more), ...extra }) as unknown as Schemas['OperationUpdatedEvent']

test('an event that repeats what the page of an operation shows is no reason to look again', () => {
  expect(concerns(operation(), event())).toBe(false)
  expect(concerns(operation(), event({ status: 'completed' }))).toBe(true)
  expect(concerns(operation(), event({ cancel_requested: true }))).toBe(true)
  expect(concerns(operation(), event({ attempt: 2 }))).toBe(true)
  expect(concerns(operation(), event({}, { job_status: 'running' }))).toBe(true)
})

test('an event of another operation concerns the page of one that waits or works on the same repository', () => {
  const other = { id: 8, repository_id: 2 }
  expect(concerns(operation(), event(other))).toBe(false)
  expect(concerns(operation({ status: 'pending' }), event(other))).toBe(true)
  expect(concerns(operation(), event({ id: 8 }))).toBe(true)
  expect(concerns(undefined, event(other))).toBe(true)
})

test('events of other repositories leave the page of an operation alone, and its own end reaches page and log', async () => {
  vi.useFakeTimers()
  const asked: unknown[] = []
  const client = new QueryClient()
  const open = (queryKey: readonly unknown[], data: unknown) => {
    client.setQueryData(queryKey, data)
    const queryFn = () => {
      asked.push(queryKey)
      return Promise.resolve(data)
    }
    new QueryObserver(client, { queryKey, queryFn, staleTime: Number.POSITIVE_INFINITY }).subscribe(() => undefined)
  }
  open(keys.operation(7), operation())
  open([...keys.log(7), 'size'], { log_lines: 3 })

  take(client, 'operation.updated', { ...event({ id: 8, repository_id: 2 }) })
  take(client, 'operation.updated', { ...event() })
  await vi.advanceTimersByTimeAsync(300)
  expect(asked).toEqual([[...keys.log(7), 'size']])

  take(client, 'operation.updated', { ...event({ status: 'completed' }) })
  await vi.advanceTimersByTimeAsync(300)
  expect(asked).toEqual([[...keys.log(7), 'size'], keys.operation(7), [...keys.log(7), 'size']])
  vi.useRealTimers()
})

test('an event during the first look leads to a second one, because that answer may be older', async () => {
  const answers: ((value: string) => void)[] = []
  const client = new QueryClient()
  const shown = new QueryObserver(client, {
    queryKey: keys.machines,
    queryFn: () => new Promise<string>((answer) => answers.push(answer)),
  })
  shown.subscribe(() => undefined)
  expect(answers.length).toBe(1)
  const done = refresh(client, { queryKey: keys.machines })
  answers[0]?.('before')
  await done
  answers[1]?.('after')
  await vi.waitFor(() => expect(shown.getCurrentResult().data).toBe('after'))
  expect(answers.length).toBe(2)
})
