import createClient from 'openapi-fetch'
import { early } from './early'
import { once } from './once'
import type { components, paths } from './schema'
import * as session from './session'

export type Schemas = components['schemas']

/** A refusal: the server's own sentence, and the id under which its log has the request. */
export class Refused extends Error {
  constructor(
    readonly status: number,
    readonly key: string,
    message: string,
    readonly params: Record<string, unknown>,
    readonly requestId: string | null,
    readonly retryAfter: number | null,
  ) {
    super(message)
  }
}

async function authorized(request: Request): Promise<Response> {
  const first = await send(request.clone())
  if (first.status !== 401) return first
  const key = await keyOf(first.clone())
  if (key !== 'auth.token_expired' && key !== 'auth.credential_missing') {
    if (session.current().name === 'in') session.ended()
    return first
  }
  return (await session.renew()) ? send(request) : first
}

async function send(request: Request): Promise<Response> {
  const state = session.current()
  if (state.name !== 'in') return fetch(request)
  request.headers.set('Authorization', `Bearer ${state.token}`)
  return (await early(request, state.token)) ?? fetch(request)
}

async function keyOf(answer: Response): Promise<string> {
  return (await refusal(answer)).key
}

export async function refusal(answer: Response): Promise<Refused> {
  const body = await answer.json().catch(() => null)
  const detail = body?.detail
  const retryAfter = Number(answer.headers.get('Retry-After')) || null
  const requestId = answer.headers.get('X-Request-Id')
  if (Array.isArray(detail)) {
    const words = detail.map((item) => `${(item.loc ?? []).slice(1).join('.')}: ${item.msg}`).join('; ')
    return new Refused(answer.status, 'api.invalid', words, {}, requestId, retryAfter)
  }
  const message = detail?.message ?? `The service answered ${answer.status}.`
  return new Refused(answer.status, detail?.key ?? 'api.unknown', message, detail?.params ?? {}, requestId, retryAfter)
}

export const api = createClient<paths>({ fetch: (request) => once(request, authorized) })

/** The data of an answer; throws Refused. */
export async function data<T>(call: Promise<{ data?: T; error?: unknown; response: Response }>): Promise<T> {
  const { data: found, response, error } = await call
  if (response.ok) return found as T
  const detail = (error as { detail?: unknown } | undefined)?.detail
  throw await refusal(new Response(JSON.stringify({ detail }), { status: response.status, headers: response.headers }))
}
