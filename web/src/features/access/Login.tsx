import { type FormEvent, type ReactNode, useEffect, useRef, useState } from 'react'
import { api, Refused, refusal } from '../../api/client'
import * as session from '../../api/session'
import { Button } from '../../ui/Button'
import { Logo } from '../../ui/Icon'
import { Note, Problem } from '../../ui/States'

function Frame({ title, children }: { title: string; children: ReactNode }) {
  return (
    <main className="door">
      <div className="card pad stack">
        <div className="brand">
          <Logo />
          <span>Holdfast</span>
        </div>
        <h1>{title}</h1>
        {children}
      </div>
    </main>
  )
}

async function post(path: string, body: BodyInit, json: boolean): Promise<session.LoginAnswer> {
  const headers: Record<string, string> = { ...session.WEB_HEADER }
  if (json) headers['Content-Type'] = 'application/json'
  const answer = await fetch(path, { method: 'POST', body, headers })
  if (!answer.ok) throw await refusal(answer)
  return answer.json()
}

export function Login() {
  const state = session.useSession()
  const [challenge, setChallenge] = useState<string | null>(null)
  if (challenge !== null) return <Code challenge={challenge} onBack={() => setChallenge(null)} />
  return <Password reason={state.name === 'out' ? state.reason : undefined} onChallenge={setChallenge} />
}

function Password({ reason, onChallenge }: { reason?: string; onChallenge: (token: string) => void }) {
  const [error, setError] = useState<unknown>(null)
  const [busy, setBusy] = useState(false)
  const wait = useCountdown(error)
  const submit = async (event: FormEvent<HTMLFormElement>) => {
    event.preventDefault()
    setBusy(true)
    setError(null)
    const form = new FormData(event.currentTarget)
    try {
      const answer = await post(
        '/api/auth/login',
        new URLSearchParams({ username: String(form.get('username')), password: String(form.get('password')) }),
        false,
      )
      if (answer.totp_required && answer.login_challenge_token) onChallenge(answer.login_challenge_token)
      else session.begin(answer)
    } catch (problem) {
      setError(problem)
    } finally {
      setBusy(false)
    }
  }
  return (
    <Frame title="Log in">
      {reason && !error && <p className="soft">{reason}</p>}
      {error !== null && <Problem error={error} />}
      <form className="stack" onSubmit={submit}>
        <label className="field">
          <span>User name</span>
          {/* biome-ignore lint/a11y/noAutofocus: the page has one purpose */}
          <input className="input" name="username" autoComplete="username" autoCapitalize="none" required autoFocus />
        </label>
        <label className="field">
          <span>Password</span>
          <input className="input" name="password" type="password" autoComplete="current-password" required />
        </label>
        <Button type="submit" kind="primary" disabled={busy || wait > 0}>
          {wait > 0 ? `Try again in ${wait} s` : busy ? 'Logging in…' : 'Log in'}
        </Button>
      </form>
      <p className="muted">The first admin's password is in the file that the service named when it first started.</p>
    </Frame>
  )
}

function Code({ challenge, onBack, onDone }: { challenge: string; onBack: () => void; onDone?: () => void }) {
  const [error, setError] = useState<unknown>(null)
  const [busy, setBusy] = useState(false)
  const field = useRef<HTMLInputElement>(null)
  const wait = useCountdown(error)
  const submit = async (event: FormEvent<HTMLFormElement>) => {
    event.preventDefault()
    setBusy(true)
    setError(null)
    const code = (field.current?.value ?? '').replaceAll(' ', '')
    try {
      session.begin(
        await post('/api/auth/login/totp', JSON.stringify({ login_challenge_token: challenge, code }), true),
      )
      onDone?.()
    } catch (problem) {
      setError(problem)
      field.current?.select() // the next digits replace the refused ones
    } finally {
      setBusy(false)
    }
  }
  return (
    <Frame title="Your code">
      {error !== null && <Problem error={error} />}
      <form className="stack" onSubmit={submit}>
        <label className="field">
          <span>Six digits from your authenticator app</span>
          <input
            ref={field}
            className="input code"
            inputMode="numeric"
            autoComplete="one-time-code"
            required
            // biome-ignore lint/a11y/noAutofocus: the page has one purpose
            autoFocus
          />
        </label>
        <Button type="submit" kind="primary" disabled={busy || wait > 0}>
          {wait > 0 ? `Try again in ${wait} s` : busy ? 'Logging in…' : 'Log in'}
        </Button>
        <Button kind="plain" onClick={onBack}>
          Back
        </Button>
      </form>
    </Frame>
  )
}

/** The page of an invitation: its token is behind the #, which browsers send to no one. */
export function Join({ token, onDone }: { token: string; onDone: () => void }) {
  const [username, setUsername] = useState<string | null>(null)
  const [challenge, setChallenge] = useState<string | null>(null)
  const [error, setError] = useState<unknown>(null)
  const [busy, setBusy] = useState(false)
  useEffect(() => {
    api.POST('/api/auth/invitation', { body: { token } }).then(
      async ({ data: found, error: refused, response }) => {
        if (found) setUsername(found.username)
        else setError(await refusal(new Response(JSON.stringify(refused), { status: response.status })))
      },
      (problem) => setError(problem),
    )
  }, [token])
  const submit = async (event: FormEvent<HTMLFormElement>) => {
    event.preventDefault()
    const form = new FormData(event.currentTarget)
    const password = String(form.get('next'))
    setError(null)
    if (password !== String(form.get('again'))) {
      setError(new Refused(422, 'web.different', 'The two passwords differ. Type them again.', {}, null, null))
      return
    }
    setBusy(true)
    try {
      await post('/api/auth/invitation/accept', JSON.stringify({ token, new_password: password }), true)
      const answer = await post('/api/auth/login', new URLSearchParams({ username: username ?? '', password }), false)
      if (answer.totp_required && answer.login_challenge_token) setChallenge(answer.login_challenge_token)
      else {
        session.begin(answer)
        onDone()
      }
    } catch (problem) {
      setError(problem)
    } finally {
      setBusy(false)
    }
  }
  if (challenge !== null) return <Code challenge={challenge} onBack={onDone} onDone={onDone} />
  return (
    <Frame title={username ? `Welcome, ${username}` : 'An invitation'}>
      {error !== null &&
        (error instanceof Refused && error.status === 404 ? (
          <Note warn>{error.message}</Note>
        ) : (
          <Problem error={error} />
        ))}
      {username === null && error === null && <p className="soft">Checking the invitation…</p>}
      {username === null && error !== null && (
        <Button kind="plain" onClick={onDone}>
          Go to login
        </Button>
      )}
      {username !== null && (
        <form className="stack" onSubmit={submit}>
          <p className="soft">Choose a password that only you know. This invitation works once.</p>
          <input type="hidden" name="username" autoComplete="username" value={username} readOnly />
          <label className="field">
            <span>Your password</span>
            <input
              className="input"
              name="next"
              type="password"
              autoComplete="new-password"
              minLength={8}
              required
              // biome-ignore lint/a11y/noAutofocus: the page has one purpose
              autoFocus
            />
            <small>At least 8 characters. Four random words are easy to remember and hard to guess.</small>
          </label>
          <label className="field">
            <span>Repeat the password</span>
            <input className="input" name="again" type="password" autoComplete="new-password" required />
          </label>
          <Button type="submit" kind="primary" disabled={busy}>
            {busy ? 'One moment…' : 'Set password and log in'}
          </Button>
        </form>
      )}
    </Frame>
  )
}

function useCountdown(error: unknown): number {
  const [left, setLeft] = useState(0)
  useEffect(() => {
    const seconds = error instanceof Refused && error.status === 429 ? (error.retryAfter ?? 0) : 0
    setLeft(seconds)
    if (!seconds) return
    const timer = window.setInterval(() => setLeft((old) => Math.max(0, old - 1)), 1000)
    return () => window.clearInterval(timer)
  }, [error])
  return left
}

/** Before anything else: the first password was chosen by another person. */
export function OwnPassword() {
  const [error, setError] = useState<unknown>(null)
  const submit = async (event: FormEvent<HTMLFormElement>) => {
    event.preventDefault()
    setError(null)
    const form = new FormData(event.currentTarget)
    const next = String(form.get('next'))
    if (next !== String(form.get('again'))) {
      setError(new Refused(422, 'web.different', 'The two new passwords differ. Type them again.', {}, null, null))
      return
    }
    const {
      data,
      error: refused,
      response,
    } = await api.POST('/api/auth/change-password', {
      body: { current_password: String(form.get('current')), new_password: next, end_tokens: false },
    })
    if (data) session.begin(data as session.LoginAnswer)
    else setError(await refusal(new Response(JSON.stringify(refused), { status: response.status })))
  }
  return (
    <Frame title="Choose your own password">
      <p className="soft">Someone else chose the password you logged in with. Choose one that only you know.</p>
      {error !== null && <Problem error={error} />}
      <form className="stack" onSubmit={submit}>
        <label className="field">
          <span>Current password</span>
          <input className="input" name="current" type="password" autoComplete="current-password" required />
        </label>
        <label className="field">
          <span>Your new password</span>
          <input className="input" name="next" type="password" autoComplete="new-password" minLength={8} required />
          <small>At least 8 characters. Four random words are easy to remember and hard to guess.</small>
        </label>
        <label className="field">
          <span>Repeat the new password</span>
          <input className="input" name="again" type="password" autoComplete="new-password" required />
        </label>
        <Button type="submit" kind="primary">
          Change password
        </Button>
      </form>
    </Frame>
  )
}
