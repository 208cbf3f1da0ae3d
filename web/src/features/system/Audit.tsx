import { useInfiniteQuery } from '@tanstack/react-query'
import { useState } from 'react'
import { api, data } from '../../api/client'
import { keys } from '../../api/keys'
import { exactMoment, moment } from '../../lib/time'
import { Button } from '../../ui/Button'
import { Empty, Loaded } from '../../ui/States'

/** Who did what, newest first. */
export function Audit() {
  const [actor, setActor] = useState('')
  const [action, setAction] = useState('')
  const query = useInfiniteQuery({
    queryKey: [...keys.audit, actor, action],
    queryFn: ({ pageParam }) =>
      data(
        api.GET('/api/audit', {
          params: {
            query: { limit: 50, cursor: pageParam, actor: actor || undefined, action: action || undefined },
          },
        }),
      ),
    initialPageParam: undefined as string | undefined,
    getNextPageParam: (page) => page.next_cursor ?? undefined,
    placeholderData: (old) => old,
  })
  return (
    <>
      <div className="row filters">
        <input
          className="input"
          placeholder="Who"
          aria-label="Who"
          value={actor}
          onChange={(event) => setActor(event.target.value.trim())}
        />
        <input
          className="input"
          placeholder="What, such as auth.login"
          aria-label="What"
          value={action}
          onChange={(event) => setAction(event.target.value.trim())}
        />
      </div>
      <Loaded query={query} height={300}>
        {(pages) => {
          const entries = pages.pages.flatMap((page) => page.entries)
          if (entries.length === 0)
            return (
              <Empty>
                Nothing matches.{' '}
                <button
                  type="button"
                  className="link"
                  onClick={() => {
                    setActor('')
                    setAction('')
                  }}
                >
                  Show everything
                </button>
              </Empty>
            )
          return (
            <>
              <div className="card scroll">
                <table>
                  <thead>
                    <tr>
                      <th>When</th>
                      <th>Who</th>
                      <th>What</th>
                      <th className="wide-only">To what</th>
                      <th className="wide-only">From</th>
                      <th>Outcome</th>
                    </tr>
                  </thead>
                  <tbody>
                    {entries.map((one) => (
                      <tr key={one.id}>
                        <td className="number soft" title={exactMoment(one.at)}>
                          {moment(one.at)}
                        </td>
                        <td>{one.actor ?? <span className="muted">unknown</span>}</td>
                        <td>
                          <code>{one.action}</code>
                        </td>
                        <td className="soft wide-only">
                          {one.object_type ? `${one.object_type} ${one.object_id ?? ''}` : ''}
                        </td>
                        <td className="wide-only soft number">{one.address}</td>
                        <td className={one.outcome === 'ok' || one.outcome === 'success' ? 'soft' : undefined}>
                          {one.outcome}
                        </td>
                      </tr>
                    ))}
                  </tbody>
                </table>
              </div>
              {query.hasNextPage && (
                <p className="more">
                  <Button onClick={() => void query.fetchNextPage()}>Show older</Button>
                </p>
              )}
            </>
          )
        }}
      </Loaded>
    </>
  )
}
