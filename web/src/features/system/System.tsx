import { useInfiniteQuery, useQuery } from '@tanstack/react-query'
import { api, data } from '../../api/client'
import { keys } from '../../api/keys'
import { exactMoment } from '../../lib/time'
import { Button } from '../../ui/Button'
import { Loaded } from '../../ui/States'

export function System() {
  const info = useQuery({ queryKey: keys.system, queryFn: () => data(api.GET('/api/system/info')) })
  const users = useQuery({ queryKey: keys.users, queryFn: () => data(api.GET('/api/users')) })
  return (
    <main>
      <h1 className="gap">Settings</h1>
      <div className="stack">
        <Loaded query={info} height={120}>
          {(system) => (
            <dl className="card pad facts-list">
              <div>
                <dt>Version</dt>
                <dd>{system.version}</dd>
              </div>
              <div>
                <dt>Store</dt>
                <dd>{system.store}</dd>
              </div>
              {system.engines.map((engine) => (
                <div key={engine.path}>
                  <dt>BorgBackup {engine.major}</dt>
                  <dd>
                    {engine.version} <span className="muted mono">{engine.path}</span>
                  </dd>
                </div>
              ))}
            </dl>
          )}
        </Loaded>
        <section>
          <h2 className="head">Users</h2>
          <Loaded query={users} height={120}>
            {(found) => (
              <div className="card scroll">
                <table>
                  <thead>
                    <tr>
                      <th>Name</th>
                      <th>Role</th>
                      <th>Codes</th>
                      <th>Repositories</th>
                      <th>Last login</th>
                    </tr>
                  </thead>
                  <tbody>
                    {found.users.map((user) => (
                      <tr key={user.id}>
                        <td className="name">
                          {user.username} {user.disabled && <span className="tag">disabled</span>}
                        </td>
                        <td>{user.role}</td>
                        <td>{user.totp_enabled ? 'on' : 'off'}</td>
                        <td>
                          {user.role === 'admin'
                            ? 'all'
                            : user.all_repositories_role
                              ? `all: ${user.all_repositories_role}`
                              : user.repositories.map((one) => `#${one.repository_id} ${one.role}`).join(', ') ||
                                'none'}
                        </td>
                        <td className="soft">{user.last_login_at ? exactMoment(user.last_login_at) : 'never'}</td>
                      </tr>
                    ))}
                  </tbody>
                </table>
              </div>
            )}
          </Loaded>
          <p className="muted">To add users and give rights: `holdfast users --help`.</p>
        </section>
        <Audit />
      </div>
    </main>
  )
}

function Audit() {
  const query = useInfiniteQuery({
    queryKey: keys.audit,
    queryFn: ({ pageParam }) => data(api.GET('/api/audit', { params: { query: { limit: 50, cursor: pageParam } } })),
    initialPageParam: undefined as string | undefined,
    getNextPageParam: (page) => page.next_cursor ?? undefined,
  })
  return (
    <section>
      <h2 className="head">Who did what</h2>
      <Loaded query={query} height={200}>
        {(pages) => (
          <>
            <div className="card scroll">
              <table>
                <thead>
                  <tr>
                    <th>When</th>
                    <th>Who</th>
                    <th>What</th>
                    <th>To what</th>
                    <th className="wide-only">From</th>
                    <th>Outcome</th>
                  </tr>
                </thead>
                <tbody>
                  {pages.pages
                    .flatMap((page) => page.entries)
                    .map((one) => (
                      <tr key={one.id}>
                        <td className="number soft">{exactMoment(one.at)}</td>
                        <td>{one.actor ?? 'nobody known'}</td>
                        <td>{one.action}</td>
                        <td className="soft">{one.object_type ? `${one.object_type} ${one.object_id ?? ''}` : ''}</td>
                        <td className="wide-only soft">{one.address}</td>
                        <td>{one.outcome}</td>
                      </tr>
                    ))}
                </tbody>
              </table>
            </div>
            {query.hasNextPage && (
              <p style={{ marginTop: 12 }}>
                <Button onClick={() => void query.fetchNextPage()}>Show older</Button>
              </p>
            )}
          </>
        )}
      </Loaded>
    </section>
  )
}
