import { afterEach, beforeEach, expect, test, vi } from 'vitest'

class Tab {
  heard: Record<string, unknown>[] = []
  onmessage: ((message: { data: unknown }) => void) | null = null
  postMessage(message: Record<string, unknown>) {
    this.heard.push(message)
  }
  start() {}
  async say(data: unknown) {
    this.onmessage?.({ data })
    await vi.advanceTimersByTimeAsync(10)
  }
  connected = () => this.heard.filter((one) => one.type === 'connected').at(-1)?.connected
}

type Stream = { token: string | undefined; signal: AbortSignal; send: (event: string) => void; end: () => void }
const encoder = new TextEncoder()
let streams: Stream[] = []
let status = 200
let join: () => Tab

beforeEach(async () => {
  vi.useFakeTimers()
  vi.resetModules()
  streams = []
  status = 200
  const worker = { onconnect: null as null | ((event: { ports: Tab[] }) => void) }
  vi.stubGlobal('self', worker)
  vi.stubGlobal('fetch', (_: string, init: { headers: Record<string, string>; signal: AbortSignal }) => {
    const body = new ReadableStream<Uint8Array>({
      start: (controller) => {
        streams.push({
          token: init.headers.Authorization,
          signal: init.signal,
          send: (event) => controller.enqueue(encoder.encode(`event: ${event}\ndata: {}\n\n`)),
          end: () => controller.close(),
        })
      },
    })
    return Promise.resolve(new Response(body, { status }))
  })
  await import('./stream.worker')
  join = () => {
    const tab = new Tab()
    worker.onconnect?.({ ports: [tab] })
    return tab
  }
})
afterEach(() => {
  vi.useRealTimers()
  vi.unstubAllGlobals()
})

test('a tab whose session ended does not end the events of the others', async () => {
  const [first, second] = [join(), join()]
  await first.say({ token: 'first' })
  await second.say({ token: 'second' })
  await second.say({ token: null })
  await second.say({ leaving: true })
  expect(streams.filter((one) => !one.signal.aborted).length).toBe(1)
  expect([first.connected(), second.connected()]).toEqual([true, false])
  streams[0]?.send('queue.updated')
  await vi.advanceTimersByTimeAsync(10)
  expect(first.heard.at(-1)).toEqual({ type: 'event', name: 'queue.updated', data: '{}' })
  expect(second.heard.some((one) => one.type === 'event')).toBe(false)
})

test('the stream connects again with the newest token of a tab that is still there', async () => {
  const [first, second] = [join(), join()]
  await first.say({ token: 'first' })
  await second.say({ token: 'second' })
  await second.say({ leaving: true })
  streams[0]?.end()
  await vi.advanceTimersByTimeAsync(10)
  expect(first.connected()).toBe(false)
  await vi.advanceTimersByTimeAsync(2000)
  expect(streams.map((one) => one.token)).toEqual(['Bearer first', 'Bearer first'])
  expect(first.connected()).toBe(true)
})

test('without a tab that is logged in the stream ends, and the next login starts it', async () => {
  const tab = join()
  await tab.say({ token: 'old' })
  await tab.say({ token: null })
  expect(streams[0]?.signal.aborted).toBe(true)
  expect(tab.connected()).toBe(false)
  await tab.say({})
  expect(streams.length).toBe(1)
  await tab.say({ token: 'new' })
  expect(streams.map((one) => one.token)).toEqual(['Bearer old', 'Bearer new'])
  expect(tab.connected()).toBe(true)
})

test('a refused token is asked for again', async () => {
  status = 401
  const tab = join()
  await tab.say({ token: 'expired' })
  expect(tab.heard.map((one) => one.type)).toEqual(['connected', 'token-needed'])
  status = 200
  await tab.say({ token: 'new' })
  await vi.advanceTimersByTimeAsync(5000)
  expect(streams.at(-1)?.token).toBe('Bearer new')
  expect(tab.connected()).toBe(true)
})
