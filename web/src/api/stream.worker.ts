/// <reference lib="webworker" />
// One event stream for all tabs of this browser: HTTP/1.1 allows six connections, and the seventh tab would hang.

import type { Schemas } from './client'

const SILENCE = 45_000
const LONGEST_WAIT = 30_000
/** What the pages follow. Progress comes for all operations at once: hundreds may run. */
const TOPICS: (keyof Schemas['LiveEvents'])[] = [
  'operation.updated',
  'operations.progress',
  'overview.updated',
  'queue.updated',
  'repository.updated',
  'archive.added',
  'archive.removed',
  'agent.updated',
  'schedule.run',
  'schedule.clock_jumped',
  'schedule.updated',
  'alarm.raised',
  'alarm.changed',
  'alarm.cleared',
  'notification.delivery',
  'notification.failed',
  'notification.recovered',
  'notification.updated',
  'user.updated',
]
const LONGEST_WAIT_FOR_TOKEN = 4000

/** The tabs that follow the events, each with its access token; the one that sent its token last comes last. */
const tabs = new Map<MessagePort, string>()
let lastId: string | null = null
let running: AbortController | null = null
let connected = false
let wait = 1000
let endPause = (): void => undefined

function everyone(message: object): void {
  for (const port of tabs.keys()) port.postMessage(message)
}

function setConnected(now: boolean): void {
  connected = now
  everyone({ type: 'connected', connected })
}

function join(port: MessagePort): void {
  port.onmessage = (message: MessageEvent<{ token?: string | null; leaving?: boolean }>) => {
    const { token, leaving } = message.data
    if (leaving || token === null) {
      leave(port)
      return
    }
    if (token === undefined) endPause()
    else {
      tabs.delete(port)
      tabs.set(port, token)
      if (running === null) {
        void run()
        return
      }
    }
    tellState(port)
  }
  port.start()
}

/** The stream goes on for the other tabs, with the token of one of them when it has to connect again. */
function leave(port: MessagePort): void {
  tabs.delete(port)
  if (tabs.size === 0) stop()
  tellState(port)
}

function tellState(port: MessagePort): void {
  port.postMessage({ type: 'connected', connected: connected && tabs.has(port) })
}

const newestToken = (): string | undefined => [...tabs.values()].at(-1)

function stop(): void {
  running?.abort()
  running = null
  connected = false
  endPause()
}

/** Waits before the next attempt; a page that does not want to wait sends a message without a token. */
function pause(): Promise<void> {
  return new Promise((done) => {
    const timer = setTimeout(done, wait * (0.7 + Math.random() * 0.6))
    wait = Math.min(wait * 2, LONGEST_WAIT)
    endPause = () => {
      clearTimeout(timer)
      wait = 1000
      done()
    }
  })
}

async function run(): Promise<void> {
  const mine = new AbortController()
  running = mine
  while (running === mine) {
    const outcome = await readOnce(mine)
    if (running !== mine) return
    setConnected(false)
    if (outcome === 'token') {
      wait = Math.min(wait, LONGEST_WAIT_FOR_TOKEN)
      everyone({ type: 'token-needed' })
    }
    await pause()
  }
}

async function readOnce(mine: AbortController): Promise<'token' | 'ended'> {
  const attempt = new AbortController()
  mine.signal.addEventListener('abort', () => attempt.abort())
  let watchdog = setTimeout(() => attempt.abort(), SILENCE)
  try {
    const headers: Record<string, string> = { Authorization: `Bearer ${newestToken()}` }
    if (lastId !== null) headers['Last-Event-ID'] = lastId
    const answer = await fetch(`/api/events/stream?topics=${TOPICS.join(',')}`, { headers, signal: attempt.signal })
    if (answer.status === 401 || answer.status === 403) return 'token'
    if (!answer.ok || !answer.body) return 'ended'
    wait = 1000
    setConnected(true)
    const reader = answer.body.pipeThrough(new TextDecoderStream()).getReader()
    let rest = ''
    for (;;) {
      const { value, done } = await reader.read()
      if (done) return 'ended'
      clearTimeout(watchdog)
      watchdog = setTimeout(() => attempt.abort(), SILENCE)
      const blocks = (rest + value.replaceAll('\r', '')).split('\n\n')
      rest = blocks.pop() ?? ''
      for (const block of blocks) take(block)
    }
  } catch {
    return 'ended'
  } finally {
    clearTimeout(watchdog)
  }
}

function take(block: string): void {
  let name = 'message'
  const lines: string[] = []
  for (const line of block.split('\n')) {
    if (line.startsWith('id:')) lastId = line.slice(3).trim()
    else if (line.startsWith('event:')) name = line.slice(6).trim()
    else if (line.startsWith('data:')) lines.push(line.slice(5).trimStart())
  }
  if (lines.length) everyone({ type: 'event', name, data: lines.join('\n') })
}

const scope = self as unknown as SharedWorkerGlobalScope & DedicatedWorkerGlobalScope
if ('onconnect' in scope) scope.onconnect = (event) => join(event.ports[0] as MessagePort)
else (self as unknown as DedicatedWorkerGlobalScope).onmessage = (event) => join(event.data.port)
