import { useMutation, useQuery, useQueryClient } from '@tanstack/react-query'
import { useNavigate } from '@tanstack/react-router'
import { type FormEvent, useState } from 'react'
import { api, data, type Schemas } from '../../api/client'
import { keys } from '../../api/keys'
import { generated } from '../../lib/passphrase'
import { Age } from '../../ui/Age'
import { Button } from '../../ui/Button'
import { Dialog } from '../../ui/Dialog'
import { Glyph } from '../../ui/Glyph'
import { Secret } from '../../ui/Secret'
import { Loaded, Problem } from '../../ui/States'
import { ROLES } from './roles'

type User = Schemas['UserAnswer']

export function useUsers() {
  return useQuery({ queryKey: keys.users, queryFn: () => data(api.GET('/api/users')) })
}

/** Who may do what. */
export function Users() {
  const query = useUsers()
  const navigate = useNavigate()
  const [adding, setAdding] = useState(false)
  const open = (id: number) => void navigate({ to: '/settings/users/$user', params: { user: String(id) } })
  return (
    <>
      <div className="head">
        <p className="soft grow">
          Viewers can browse. Operators can also back up, restore and check. Admins can do everything and see every
          repository.
        </p>
        <Button kind="primary" onClick={() => setAdding(true)}>
          Add user
        </Button>
      </div>
      <Loaded query={query} height={200}>
        {({ users }) => (
          <div className="card scroll">
            <table>
              <thead>
                <tr>
                  <th>Name</th>
                  <th>Role</th>
                  <th>Repositories</th>
                  <th className="wide-only">Second factor</th>
                  <th className="wide-only">Last login</th>
                </tr>
              </thead>
              <tbody>
                {users.map((user) => (
                  <tr key={user.id} className="open" onClick={() => open(user.id)}>
                    <td>
                      <button type="button" className="name bare" onClick={() => open(user.id)}>
                        {user.username}
                      </button>
                      {user.disabled && <span className="tag">disabled</span>}
                      {user.invited_until && <span className="tag">invited</span>}
                      {user.email && <span className="sub">{user.email}</span>}
                    </td>
                    <td>{user.role}</td>
                    <td>{reach(user)}</td>
                    <td className="wide-only">
                      <span className={user.totp_enabled ? 'evidence' : 'evidence never'}>
                        <Glyph name={user.totp_enabled ? 'ok' : 'unknown'} />
                        {user.totp_enabled ? 'on' : 'off'}
                      </span>
                    </td>
                    <td className="wide-only soft">
                      {user.last_login_at ? <Age at={user.last_login_at} words /> : 'never'}
                    </td>
                  </tr>
                ))}
              </tbody>
            </table>
          </div>
        )}
      </Loaded>
      {adding && <NewUser onClose={() => setAdding(false)} onMade={(user) => open(user.id)} />}
    </>
  )
}

function reach(user: User): string {
  if (user.role === 'admin') return 'all'
  if (user.all_repositories_role) return `all, as ${user.all_repositories_role}`
  const number = user.repositories.length
  return number === 0 ? 'none' : number === 1 ? '1 repository' : `${number} repositories`
}

function NewUser({ onClose, onMade }: { onClose: () => void; onMade: (user: User) => void }) {
  const client = useQueryClient()
  const [password] = useState(generated)
  const [role, setRole] = useState<User['role']>('operator')
  const [invited, setInvited] = useState(true)
  const create = useMutation({
    mutationFn: async (form: FormData) => {
      const user = await data(
        api.POST('/api/users', {
          body: {
            username: String(form.get('username')).trim(),
            email: String(form.get('email')).trim() || null,
            password: invited ? null : String(form.get('password')),
            role,
            must_change_password: !invited,
          },
        }),
      )
      if (!invited) return { user, link: null }
      const path = { path: { user_id: user.id } }
      const made = await data(api.POST('/api/users/{user_id}/invitation', { params: path, body: {} as never }))
      return { user, link: location.origin + made.path }
    },
    onSuccess: ({ user, link }) => {
      void client.invalidateQueries({ queryKey: keys.users })
      if (link !== null) return
      onClose()
      onMade(user)
    },
  })
  if (create.data?.link) {
    const { user, link } = create.data
    const done = () => {
      onClose()
      onMade(user)
    }
    return (
      <Dialog title={`${user.username} is invited`} onClose={done}>
        <p>Give this link to {user.username} only. It works once and expires after three days.</p>
        <Secret title="It is shown only once." value={link} />
        <footer>
          <Button kind="primary" onClick={done}>
            Done
          </Button>
        </footer>
      </Dialog>
    )
  }
  const submit = (event: FormEvent<HTMLFormElement>) => {
    event.preventDefault()
    create.mutate(new FormData(event.currentTarget))
  }
  return (
    <Dialog title="Add user" onClose={onClose}>
      <form className="stack" onSubmit={submit}>
        <label className="field">
          <span>User name</span>
          <input className="input" name="username" required autoComplete="off" autoCapitalize="none" />
        </label>
        <label className="field">
          <span>Email address</span>
          <input className="input" name="email" type="email" autoComplete="off" />
        </label>
        <fieldset className="plain">
          <legend>Password</legend>
          <label className="choice">
            <input type="radio" name="way" checked={invited} onChange={() => setInvited(true)} />
            <span>They choose it with a link that you send them</span>
          </label>
          <label className="choice">
            <input type="radio" name="way" checked={!invited} onChange={() => setInvited(false)} />
            <span>An initial password, to be changed at the first login</span>
          </label>
        </fieldset>
        {!invited && (
          <label className="field">
            <span>Initial password</span>
            <input
              className="input mono"
              name="password"
              defaultValue={password}
              minLength={8}
              required
              autoComplete="off"
            />
            <small>Share it with them now. They choose their own at the first login.</small>
          </label>
        )}
        <fieldset className="plain">
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
        {create.error && <Problem error={create.error} />}
        <footer>
          <Button onClick={onClose}>Cancel</Button>
          <Button acts type="submit" kind="primary" disabled={create.isPending}>
            {invited ? 'Add and create link' : 'Add'}
          </Button>
        </footer>
      </form>
    </Dialog>
  )
}
