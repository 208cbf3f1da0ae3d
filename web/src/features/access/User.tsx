import { useMutation, useQuery, useQueryClient } from '@tanstack/react-query'
import { Link, useNavigate, useParams } from '@tanstack/react-router'
import { type FormEvent, useState } from 'react'
import { api, data, type Schemas } from '../../api/client'
import { keys } from '../../api/keys'
import { useAway } from '../../api/stream'
import { useMe } from '../../layout/Shell'
import { generated } from '../../lib/passphrase'
import { moment } from '../../lib/time'
import { Age } from '../../ui/Age'
import { AWAY, Button } from '../../ui/Button'
import { Confirm } from '../../ui/Confirm'
import { Secret } from '../../ui/Secret'
import { Loaded, Note, Problem } from '../../ui/States'
import { difference, ROLES } from './roles'

type Person = Schemas['UserAnswer']

export function User() {
  const id = Number((useParams({ strict: false }) as { user: string }).user)
  const query = useQuery({
    queryKey: [...keys.users, id],
    queryFn: () => data(api.GET('/api/users/{user_id}', { params: { path: { user_id: id } } })),
  })
  return (
    <Loaded query={query} height={400}>
      {(user) => <Shown user={user} />}
    </Loaded>
  )
}

function Shown({ user }: { user: Person }) {
  const { data: me } = useMe()
  const own = me?.id === user.id
  return (
    <div className="stack">
      <div className="row">
        <Link to="/settings/users" className="button small" aria-label="All users">
          ‹ Users
        </Link>
        <h2 className="big">{user.username}</h2>
        {user.disabled && <span className="tag">disabled</span>}
        <span className="soft">
          {user.last_login_at ? (
            <>
              last here <Age at={user.last_login_at} words />
            </>
          ) : (
            'has never logged in'
          )}
          , second factor {user.totp_enabled ? 'on' : 'off'}
        </span>
      </div>
      {own && <Note>This is you. Your own password, sessions and tokens are under your name.</Note>}
      <Profile key={`${user.role} ${user.email}`} user={user} own={own} />
      {user.role !== 'admin' && <Rights user={user} />}
      {!own && <Safety user={user} />}
    </div>
  )
}

function useChange(user: Person) {
  const client = useQueryClient()
  return useMutation({
    mutationFn: (body: Schemas['UserUpdate']) =>
      data(api.PUT('/api/users/{user_id}', { params: { path: { user_id: user.id } }, body })),
    onSuccess: () => void client.invalidateQueries({ queryKey: keys.users }),
  })
}

function Profile({ user, own }: { user: Person; own: boolean }) {
  const [role, setRole] = useState(user.role)
  const change = useChange(user)
  const submit = (event: FormEvent<HTMLFormElement>) => {
    event.preventDefault()
    const email = String(new FormData(event.currentTarget).get('email')).trim()
    change.mutate({
      ...(role === user.role ? {} : { role }),
      email: email || null,
      end_tokens: false,
    } as Schemas['UserUpdate'])
  }
  return (
    <form className="card pad stack" onSubmit={submit}>
      <label className="field short">
        <span>Email address</span>
        <input className="input" name="email" type="email" defaultValue={user.email ?? ''} autoComplete="off" />
      </label>
      <fieldset className="plain" disabled={own}>
        <legend>Role</legend>
        {ROLES.map(([name, words]) => (
          <label className="choice" key={name}>
            <input type="radio" name="role" checked={role === name} onChange={() => setRole(name)} />
            <span>
              <b>{name}</b> <span className="soft">{words}</span>
            </span>
          </label>
        ))}
      </fieldset>
      <p className="soft" aria-live="polite">
        {difference(user.role, role)}
      </p>
      {change.error && <Problem error={change.error} />}
      {change.isSuccess && <p className="soft">Saved.</p>}
      <div>
        <Button acts type="submit" kind="primary" disabled={change.isPending}>
          Save
        </Button>
      </div>
    </form>
  )
}

/** Which repositories, and how far. The role bounds it: a viewer never operates. */
function Rights({ user }: { user: Person }) {
  const client = useQueryClient()
  const change = useChange(user)
  const repositories = useQuery({ queryKey: keys.repositories, queryFn: () => data(api.GET('/api/repositories/')) })
  const give = useMutation({
    mutationFn: ({ repository, role }: { repository: number; role: string }) => {
      const path = { user_id: user.id, repository_id: repository }
      return role === 'none'
        ? data(api.DELETE('/api/users/{user_id}/repositories/{repository_id}', { params: { path } }))
        : data(
            api.PUT('/api/users/{user_id}/repositories/{repository_id}', {
              params: { path },
              body: { role: role as 'viewer' },
            }),
          )
    },
    onSettled: () => void client.invalidateQueries({ queryKey: keys.users }),
  })
  const all = user.all_repositories_role ?? 'none'
  return (
    <section className="card pad stack">
      <h2>Repositories</h2>
      <div className="row">
        <span className="grow">All repositories, also those to come</span>
        <Choice
          label="All repositories"
          value={all}
          busy={change.isPending}
          onChange={(role) =>
            change.mutate({
              all_repositories_role: role === 'none' ? null : (role as 'viewer'),
              end_tokens: false,
            } as Schemas['UserUpdate'])
          }
        />
      </div>
      <Loaded query={repositories} height={120}>
        {(found) => (
          <ul className="plain-list lines">
            {found.repositories.map((one) => {
              const right = user.repositories.find((mine) => mine.repository_id === one.id)?.role ?? 'none'
              return (
                <li key={one.id} className="row">
                  <span className="grow">
                    <b>{one.name}</b>
                    {right === 'none' && all !== 'none' && <span className="muted"> {all}, by the line above</span>}
                  </span>
                  <Choice
                    label={`Right on ${one.name}`}
                    value={right}
                    busy={give.isPending}
                    onChange={(role) => give.mutate({ repository: one.id, role })}
                  />
                </li>
              )
            })}
            {found.repositories.length === 0 && <li className="muted">No repositories yet.</li>}
          </ul>
        )}
      </Loaded>
      {user.role === 'viewer' && (
        <p className="muted">As a viewer, {user.username} can only look, even with rights given here.</p>
      )}
      {(give.error ?? change.error) && <Problem error={give.error ?? change.error} />}
    </section>
  )
}

function Choice({
  label,
  value,
  busy,
  onChange,
}: {
  label: string
  value: string
  busy: boolean
  onChange: (role: string) => void
}) {
  const away = useAway()
  return (
    <select
      className="input auto"
      aria-label={label}
      value={value}
      disabled={busy || away}
      title={away ? AWAY : undefined}
      onChange={(event) => onChange(event.target.value)}
    >
      <option value="none">none</option>
      <option value="viewer">viewer</option>
      <option value="operator">operator</option>
    </select>
  )
}

function Safety({ user }: { user: Person }) {
  const client = useQueryClient()
  const navigate = useNavigate()
  const [deleting, setDeleting] = useState(false)
  const [password, setPassword] = useState<string | null>(null)
  const change = useChange(user)
  const reset = useMutation({
    mutationFn: async () => {
      const made = generated()
      await data(
        api.PUT('/api/users/{user_id}', {
          params: { path: { user_id: user.id } },
          body: { password: made, must_change_password: true, end_tokens: true } as Schemas['UserUpdate'],
        }),
      )
      return made
    },
    onSuccess: (made) => {
      setPassword(made)
      void client.invalidateQueries({ queryKey: keys.users })
    },
  })
  const invite = useMutation({
    mutationFn: () =>
      data(api.POST('/api/users/{user_id}/invitation', { params: { path: { user_id: user.id } }, body: {} as never })),
    onSuccess: () => void client.invalidateQueries({ queryKey: keys.users }),
  })
  const withdraw = useMutation({
    mutationFn: () => data(api.DELETE('/api/users/{user_id}/invitation', { params: { path: { user_id: user.id } } })),
    onSuccess: () => {
      invite.reset()
      void client.invalidateQueries({ queryKey: keys.users })
    },
  })
  const remove = useMutation({
    mutationFn: () => data(api.DELETE('/api/users/{user_id}', { params: { path: { user_id: user.id } } })),
    onSuccess: () => {
      void client.invalidateQueries({ queryKey: keys.users })
      void navigate({ to: '/settings/users' })
    },
  })
  return (
    <section className="card pad stack">
      <h2>Access</h2>
      {!user.disabled && (
        <div className="row">
          <span className="grow soft">
            {user.invited_until
              ? `Invited; the link works once, until ${moment(user.invited_until)}.`
              : 'A link with which they choose a password of their own, once.'}
          </span>
          {user.invited_until && (
            <Button acts kind="plain" disabled={withdraw.isPending} onClick={() => withdraw.mutate()}>
              Withdraw
            </Button>
          )}
          <Button acts disabled={invite.isPending} onClick={() => invite.mutate()}>
            {user.invited_until ? 'Make another link' : 'Invite by a link'}
          </Button>
        </div>
      )}
      {invite.data && (
        <Secret title="Give it to them alone; it is shown this once." value={location.origin + invite.data.path} />
      )}
      <div className="row">
        <span className="grow soft">A new first password; sessions and tokens end.</span>
        <Button acts disabled={reset.isPending} onClick={() => reset.mutate()}>
          Reset the password
        </Button>
      </div>
      {password && <Secret title="Give it to them now; it is shown this once." value={password} />}
      <div className="row">
        <span className="grow soft">
          {user.disabled ? 'This user cannot log in.' : 'Ends all sessions now; everything else stays as it is.'}
        </span>
        <Button
          acts
          disabled={change.isPending}
          onClick={() => change.mutate({ disabled: !user.disabled, end_tokens: false })}
        >
          {user.disabled ? 'Enable' : 'Disable'}
        </Button>
      </div>
      <div className="row">
        <span className="grow soft">The account, its rights and its tokens go. What it did stays in the audit.</span>
        <Button onClick={() => setDeleting(true)}>Delete…</Button>
      </div>
      {(reset.error ?? change.error ?? invite.error ?? withdraw.error) && (
        <Problem error={reset.error ?? change.error ?? invite.error ?? withdraw.error} />
      )}
      {deleting && (
        <Confirm
          title={`Delete ${user.username}?`}
          act="Delete user"
          keep="Keep"
          busy={remove.isPending}
          error={remove.error}
          onAct={() => remove.mutate()}
          onClose={() => setDeleting(false)}
        >
          <p>The account cannot be restored. Backups, schedules and the audit log are kept.</p>
        </Confirm>
      )}
    </section>
  )
}
