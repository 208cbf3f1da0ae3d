import { useSyncExternalStore } from 'react'

/** Who is logged in. The access token lives here, in memory, and nowhere else; a cookie that scripts cannot read renews it. */
export type State =
  | { name: 'unknown' }
  | { name: 'out'; reason?: string }
  | { name: 'in'; token: string; expires: number; mustChangePassword: boolean }

export interface LoginAnswer {
  access_token: string | null
  expires_in: number
  must_change_password: boolean
  totp_required: boolean
  login_challenge_token: string | null
}

export const WEB_HEADER = { 'X-Holdfast-Web': '1' }
const RENEW_BEFORE = 5 * 60_000

let state: State = { name: 'unknown' }
const listeners = new Set<() => void>()
let timer: number | undefined

function become(next: State): void {
  state = next
  window.clearTimeout(timer)
  if (next.name === 'in') {
    const wait = Math.max(10_000, next.expires - Date.now() - RENEW_BEFORE)
    timer = window.setTimeout(() => void renew(), wait)
  }
  for (const listener of listeners) listener()
}

export const current = () => state
export function subscribe(listener: () => void): () => void {
  listeners.add(listener)
  return () => listeners.delete(listener)
}
export const useSession = () => useSyncExternalStore(subscribe, current)

export function begin(answer: LoginAnswer): void {
  if (!answer.access_token) return
  become({
    name: 'in',
    token: answer.access_token,
    expires: Date.now() + answer.expires_in * 1000,
    mustChangePassword: answer.must_change_password,
  })
}

let renewing: Promise<boolean> | undefined

/** Get a new access token by the cookie. One tab at a time; others wait, and then ask themselves. */
export function renew(): Promise<boolean> {
  renewing ??= locked(ask).finally(() => {
    renewing = undefined
  })
  return renewing
}

function locked<T>(work: () => Promise<T>): Promise<T> {
  return navigator.locks ? (navigator.locks.request('holdfast-refresh', work) as Promise<T>) : work()
}

/** How long to wait before asking again, while it is not known yet whether there is a session. */
const WAITS = [500, 1000, 2000, 4000, 8000]
const pause = (milliseconds: number) => new Promise((done) => setTimeout(done, milliseconds))

declare global {
  interface Window {
    /** The answer to the first request, which theme.js sends while this script is still loading. */
    holdfastRefresh?: Promise<Response | null>
  }
}

function refresh(): Promise<Response | null> {
  const early = window.holdfastRefresh
  window.holdfastRefresh = undefined
  return early ?? fetch('/api/auth/refresh', { method: 'POST', headers: WEB_HEADER }).catch(() => null)
}

async function ask(): Promise<boolean> {
  for (const wait of [...WAITS, null]) {
    const answer = await refresh()
    if (answer?.ok) {
      begin(await answer.json())
      return true
    }
    if (answer?.status === 401 || answer?.status === 403) {
      become({ name: 'out' })
      return false
    }
    // Not reachable or too busy: a session that was there may still be, and events tell when the service is back.
    if (state.name !== 'unknown') return false
    if (wait !== null) await pause(wait)
  }
  become({ name: 'out', reason: 'The service does not answer. Try again in a moment.' })
  return false
}

export async function logOut(): Promise<void> {
  if (state.name === 'in') {
    await fetch('/api/auth/logout', {
      method: 'POST',
      headers: { ...WEB_HEADER, Authorization: `Bearer ${state.token}` },
    }).catch(() => undefined)
  }
  become({ name: 'out' })
}

export const ended = () => become({ name: 'out', reason: 'Your session has ended. Log in again.' })
