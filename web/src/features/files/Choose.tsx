import { useQuery } from '@tanstack/react-query'
import { Link } from '@tanstack/react-router'
import { api, data } from '../../api/client'
import { keys } from '../../api/keys'
import { counted } from '../../lib/numbers'
import { Age } from '../../ui/Age'
import { Icon } from '../../ui/Icon'
import { Empty, Loaded } from '../../ui/States'

export function Choose() {
  const query = useQuery({ queryKey: keys.repositories, queryFn: () => data(api.GET('/api/repositories/')) })
  return (
    <main>
      <h1 className="gap">Files</h1>
      <Loaded query={query} height={240}>
        {({ repositories }) =>
          repositories.length === 0 ? (
            <Empty command="holdfast repos create --help">
              No repositories yet, or none that you can see.{' '}
              <Link to="/repositories" className="link">
                All repositories
              </Link>
            </Empty>
          ) : (
            <ul className="card plain-list choose">
              {repositories.map((one) => (
                <li key={one.id}>
                  <Link to="/files/$id" params={{ id: String(one.id) }}>
                    <Icon name="repository" />
                    <b>{one.name}</b>
                    <span className="muted number">
                      {one.archive_count ? counted(one.archive_count, 'archive') : 'no archives yet'}
                      {one.last_backup && (
                        <>
                          , newest <Age at={one.last_backup} words />
                        </>
                      )}
                    </span>
                    <Icon name="right" />
                  </Link>
                </li>
              ))}
            </ul>
          )
        }
      </Loaded>
    </main>
  )
}
