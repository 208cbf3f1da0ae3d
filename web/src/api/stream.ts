import type { QueryClient } from '@tanstack/react-query'
import { useSyncExternalStore } from 'react'
import { refresh, take } from './effects'
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
      if (said.connected && !live.connected) void refresh(client)
      setConnected(said.connected)
    } else if (said.type === 'token-needed' || said.name === 'session.ended') void session.renew()
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
    port.onmessage = null
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
