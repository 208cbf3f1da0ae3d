import type { QueryClient } from '@tanstack/react-query'
import { useSyncExternalStore } from 'react'
import type { Schemas } from './client'
import { keys } from './keys'
import * as session from './session'

/** Whether events arrive, since when (or since when not), and whether they have been missing for long enough to say so. */
export type Live = { connected: boolean; since: number; away: boolean }

/** A service that restarts is back within this time; only then does the page say that it is gone. */
const PATIENCE = 5000

let live: Live = { connected: false, since: Date.now(), away: false }
let patience: number | undefined
const watchers = new Set<() => void>()
export const useLive = () => useSyncExternalStore(watch, () => live)
/** Whether the service has not answered for some seconds: nothing can be changed until it does. */
export const useAway = () => useSyncExternalStore(watch, () => live.away)

function watch(watcher: () => void): () => void {
  watchers.add(watcher)
  return () => watchers.delete(watcher)
}

function setConnected(connected: boolean): void {
  if (live.connected === connected) return
  become({ connected, since: Date.now(), away: false })
  if (!connected) waitPatiently()
}

function become(next: Live): void {
  live = next
  for (const watcher of watchers) watcher()
}

function waitPatiently(): void {
  window.clearTimeout(patience)
  patience = window.setTimeout(() => live.connected || become({ ...live, away: true }), PATIENCE)
}

type FromWorker =
  | { type: 'event'; name: string; data: string }
  | { type: 'connected'; connected: boolean }
  | { type: 'token-needed' }

/** Follow the service's events while a user is logged in. All tabs share one connection. */
export function follow(client: QueryClient): () => void {
  const port = connect()
  become({ connected: false, since: Date.now(), away: false })
  waitPatiently()
  const tell = () => {
    const state = session.current()
    port.postMessage({ token: state.name === 'in' && !state.mustChangePassword ? state.token : null })
  }
  port.onmessage = (message: MessageEvent<FromWorker>) => {
    const said = message.data
    if (said.type === 'connected') {
      if (said.connected && !live.connected) void client.invalidateQueries()
      setConnected(said.connected)
    } else if (said.type === 'token-needed') void session.renew()
    else take(client, said.name, JSON.parse(said.data))
  }
  tell()
  const stop = session.subscribe(tell)
  retryNow = () => port.postMessage({})
  const back = () => document.hidden || live.connected || retryNow()
  const leave = () => port.postMessage({ leaving: true })
  window.addEventListener('pageshow', tell)
  window.addEventListener('online', back)
  document.addEventListener('visibilitychange', back)
  window.addEventListener('pagehide', leave)
  return () => {
    stop()
    window.clearTimeout(patience)
    become({ ...live, away: false })
    retryNow = () => undefined
    window.removeEventListener('pageshow', tell)
    window.removeEventListener('online', back)
    document.removeEventListener('visibilitychange', back)
    window.removeEventListener('pagehide', leave)
    leave()
  }
}

let retryNow = (): void => undefined
/** Connect now instead of at the next attempt. */
export const connectNow = () => retryNow()

function connect(): MessagePort {
  if (typeof SharedWorker !== 'undefined') {
    const worker = new SharedWorker(new URL('./stream.worker.ts', import.meta.url), {
      type: 'module',
      name: 'holdfast-events',
    })
    worker.port.start()
    return worker.port
  }
  const worker = new Worker(new URL('./stream.worker.ts', import.meta.url), { type: 'module' })
  const channel = new MessageChannel()
  worker.postMessage({ port: channel.port1 }, [channel.port1])
  channel.port2.start()
  return channel.port2
}

type Detail = Schemas['OperationDetail']

/** A running operation as its last report of progress shows it. */
export function withProgress(operation: Detail, progress: Record<string, unknown>): Detail {
  const number = (name: string) => (typeof progress[name] === 'number' ? (progress[name] as number) : null)
  return {
    ...operation,
    progress_percent: number('progress_percent') ?? operation.progress_percent,
    progress_message: typeof progress.message === 'string' ? progress.message : operation.progress_message,
    progress_details: progress,
  }
}

/** What an event changes in the cache. */
function take(client: QueryClient, name: string, body: Record<string, unknown>): void {
  const repository = typeof body.repository_id === 'number' ? body.repository_id : null
  if (name === 'operations.progress') {
    for (const { id, progress } of (body as Schemas['OperationsProgressEvent']).operations)
      client.setQueryData<Detail>(keys.operation(id), (old) => (old ? withProgress(old, progress) : old))
    soon(
      client,
      'progress',
      () => {
        void client.invalidateQueries({ queryKey: keys.overview })
        void client.invalidateQueries({ queryKey: keys.queue })
      },
      3000,
    )
    return
  }
  if (name === 'hello') return
  if (name === 'session.ended') {
    void session.renew()
    return
  }
  if (repository !== null) touched.add(repository)
  if (name === 'overview.updated') {
    soon(client, name, () => void client.invalidateQueries({ queryKey: keys.overview }), 250)
    return
  }
  if (name === 'queue.updated') {
    soon(client, name, () => void client.invalidateQueries({ queryKey: keys.queue }), 250)
    return
  }
  soon(
    client,
    name,
    () => {
      for (const id of touched) void client.invalidateQueries({ queryKey: ['repository', id] })
      touched.clear()
      if (name === 'operation.updated') {
        void client.invalidateQueries({ queryKey: ['operations'] })
        void client.invalidateQueries({ queryKey: ['operation'] })
        void client.invalidateQueries({ queryKey: ['evidence'] })
      }
      if (name === 'agent.updated') void client.invalidateQueries({ queryKey: keys.machines })
      if (name === 'repository.updated') {
        void client.invalidateQueries({ queryKey: keys.repositories })
        void client.invalidateQueries({ queryKey: ['evidence'] })
      }
      if (name === 'user.updated') {
        void client.invalidateQueries({ queryKey: keys.users })
        void client.invalidateQueries({ queryKey: keys.tokens })
      }
      if (name.startsWith('alarm.')) void client.invalidateQueries({ queryKey: keys.alarms })
      if (name.startsWith('notification.')) void client.invalidateQueries({ queryKey: ['notifications'] })
      if (name === 'operation.updated') void client.invalidateQueries({ queryKey: keys.packages })
      if (name.startsWith('schedule.') || name === 'operation.updated')
        void client.invalidateQueries({ queryKey: keys.schedules })
      if (name === 'reset') void client.invalidateQueries()
    },
    250,
  )
}

/** Repositories that events have named since the last look. */
const touched = new Set<number>()
const waiting = new Map<string, number>()

/** Many events of one name within a moment are one look at the service. */
function soon(_client: QueryClient, name: string, work: () => void, wait: number): void {
  if (waiting.has(name)) return
  waiting.set(
    name,
    window.setTimeout(() => {
      waiting.delete(name)
      work()
    }, wait),
  )
}
