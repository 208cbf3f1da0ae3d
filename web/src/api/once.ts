/** Requests that may or may not have arrived: a retry carries the same key, and the service acts once. */
const unanswered = new Map<string, string>()

/** Routes that start work and know the key, so that a lost answer can be requested again immediately. */
const STARTS =
  /^\/api\/(backup\/(start|run)|restore\/start|operations\/\d+\/retry|schedules\/\d+\/run|packages\/\d+\/install|repositories\/\d+\/(check|prune|compact|restore-check|wipe|mirror\/(sync|hydrate)))$/
const WAITS = [1000, 2000, 4000, 8000, 8000, 8000]

type Send = (request: Request) => Promise<Response>

export async function once(request: Request, send: Send, waits = WAITS): Promise<Response> {
  if (request.method !== 'POST') return send(request)
  const act = `${request.url} ${await request.clone().text()}`
  const key = unanswered.get(act) ?? made()
  unanswered.set(act, key)
  request.headers.set('Idempotency-Key', key)
  const answer = await patient(request, send, waits)
  if (answer.status < 500) unanswered.delete(act)
  return answer
}

async function patient(request: Request, send: Send, waits: number[]): Promise<Response> {
  const again = STARTS.test(new URL(request.url).pathname) ? waits : []
  for (const wait of again) {
    try {
      return await send(request.clone())
    } catch {
      await new Promise((done) => setTimeout(done, wait))
    }
  }
  return send(request)
}

function made(): string {
  return [...crypto.getRandomValues(new Uint8Array(16))].map((byte) => byte.toString(16).padStart(2, '0')).join('')
}
