import { useMutation, useQuery, useQueryClient } from '@tanstack/react-query'
import { Link } from '@tanstack/react-router'
import { type FormEvent, useState } from 'react'
import { api, data } from '../../api/client'
import { keys } from '../../api/keys'
import * as session from '../../api/session'
import { useMe } from '../../layout/Shell'
import { shortDay } from '../../lib/time'
import { Age } from '../../ui/Age'
import { Button } from '../../ui/Button'
import { Secret } from '../../ui/Secret'
import { Loaded, Problem } from '../../ui/States'
import { SecondFactor } from './SecondFactor'

export function Account() {
  const { data: me } = useMe()
  const admin = me?.role === 'admin'
  const more: [string, string][] = [
    ['/queue', 'Queue'],
    ['/schedules', 'Schedules'],
    ['/notifications/alarms', 'Alarms'],
    ...((admin
      ? [
          ['/notifications', 'Notifications'],
          ['/machines', 'Machines'],
          ['/settings', 'Settings'],
        ]
      : []) as [string, string][]),
  ]
  return (
    <main>
      <div className="row gap">
        <h1 className="grow">{me?.username ?? 'Account'}</h1>
        <Button onClick={() => void session.logOut()}>Log out</Button>
      </div>
      <div className="stack form">
        <p className="soft">You are {me?.role === 'viewer' ? 'a viewer' : me ? `an ${me.role}` : '…'}.</p>
        <nav className="card narrow-only choose" aria-label="More pages">
          <ul className="plain-list choose">
            {more.map(([to, name]) => (
              <li key={to}>
                <Link to={to}>{name}</Link>
              </li>
            ))}
          </ul>
        </nav>
        <Appearance />
        <Password />
        <SecondFactor />
        <Tokens />
      </div>
    </main>
  )
}

function Appearance() {
  const [theme, setTheme] = useState(() => localStorage.getItem('theme') ?? 'system')
  const choose = (next: string) => {
    setTheme(next)
    if (next === 'system') localStorage.removeItem('theme')
    else localStorage.setItem('theme', next)
    const dark = next === 'system' ? matchMedia('(prefers-color-scheme: dark)').matches : next === 'dark'
    document.documentElement.classList.toggle('dark', dark)
  }
  return (
    <section className="card pad stack">
      <h2>Appearance</h2>
      <div className="row">
        {['system', 'light', 'dark'].map((one) => (
          <button type="button" className="chip" key={one} aria-pressed={theme === one} onClick={() => choose(one)}>
            {one === 'system' ? 'As the system' : one === 'light' ? 'Light' : 'Dark'}
          </button>
        ))}
      </div>
    </section>
  )
}

function Password() {
  const change = useMutation({
    mutationFn: (form: FormData) =>
      data(
        api.POST('/api/auth/change-password', {
          body: {
            current_password: String(form.get('current')),
            new_password: String(form.get('next')),
            end_tokens: false,
          },
        }),
      ),
    onSuccess: (answer) => session.begin(answer as session.LoginAnswer),
  })
  const submit = (event: FormEvent<HTMLFormElement>) => {
    event.preventDefault()
    change.mutate(new FormData(event.currentTarget))
    event.currentTarget.reset()
  }
  return (
    <form className="card pad stack" onSubmit={submit}>
      <h2>Password</h2>
      <label className="field">
        <span>Current password</span>
        <input className="input" type="password" name="current" autoComplete="current-password" required />
      </label>
      <label className="field">
        <span>New password</span>
        <input className="input" type="password" name="next" autoComplete="new-password" minLength={8} required />
        <small>All your other sessions will end.</small>
      </label>
      {change.error && <Problem error={change.error} />}
      {change.isSuccess && <p className="soft">Changed.</p>}
      <div>
        <Button acts type="submit">
          Change password
        </Button>
      </div>
    </form>
  )
}

function Tokens() {
  const client = useQueryClient()
  const query = useQuery({ queryKey: keys.tokens, queryFn: () => data(api.GET('/api/settings/tokens')) })
  const refresh = () => void client.invalidateQueries({ queryKey: keys.tokens })
  const make = useMutation({
    mutationFn: (form: FormData) =>
      data(
        api.POST('/api/settings/tokens', {
          body: {
            name: String(form.get('name')),
            scope: String(form.get('scope')) as 'read',
            expires_in_days: Number(form.get('days')) || null,
          },
        }),
      ),
    onSuccess: refresh,
  })
  const revoke = useMutation({
    mutationFn: (id: number) =>
      data(api.DELETE('/api/settings/tokens/{token_id}', { params: { path: { token_id: id } } })),
    onSuccess: refresh,
  })
  return (
    <section className="card pad stack">
      <h2>Account tokens</h2>
      <p className="soft">For scripts and monitoring. A token can do what you can, limited by its scope.</p>
      <Loaded query={query} height={80}>
        {({ tokens }) => (
          <ul className="plain-list">
            {tokens.map((one) => (
              <li key={one.id} className="row">
                <span className="grow">
                  <b>{one.name}</b> <span className="muted mono">{one.prefix}…</span>
                  <span className="sub muted">
                    {one.scope},{' '}
                    {one.last_used_at ? (
                      <>
                        used <Age at={one.last_used_at} words />
                      </>
                    ) : (
                      'never used'
                    )}
                    {one.expires_at ? `, ends ${shortDay(one.expires_at)}` : ', never ends'}
                  </span>
                </span>
                <Button acts small onClick={() => revoke.mutate(one.id)}>
                  Revoke
                </Button>
              </li>
            ))}
            {tokens.length === 0 && <li className="muted">None.</li>}
          </ul>
        )}
      </Loaded>
      {make.data && <Secret title="Copy it now; it is shown only once." value={make.data.token} />}
      <form
        className="row"
        onSubmit={(event) => {
          event.preventDefault()
          make.mutate(new FormData(event.currentTarget))
          event.currentTarget.reset()
        }}
      >
        <input
          className="input grow auto"
          name="name"
          placeholder="Purpose"
          aria-label="Name of the new token"
          required
        />
        <select className="input auto" name="scope" aria-label="Scope">
          <option value="read">reads</option>
          <option value="operate">operates</option>
          <option value="admin">administers</option>
          <option value="metrics">metrics only</option>
        </select>
        <select className="input auto" name="days" aria-label="Valid for" defaultValue="365">
          <option value="30">30 days</option>
          <option value="365">a year</option>
          <option value="0">never expires</option>
        </select>
        <Button acts type="submit">
          Create
        </Button>
      </form>
      {(make.error ?? revoke.error) && <Problem error={make.error ?? revoke.error} />}
    </section>
  )
}
