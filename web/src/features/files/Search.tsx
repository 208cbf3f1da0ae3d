import { useInfiniteQuery } from '@tanstack/react-query'
import { Link, useSearch } from '@tanstack/react-router'
import { useEffect, useState } from 'react'
import { api, data } from '../../api/client'
import { keys } from '../../api/keys'
import { useMe } from '../../layout/Shell'
import { useChoose, useChosen } from '../../lib/address'
import { bytes, counted } from '../../lib/numbers'
import { shortDay } from '../../lib/time'
import { Button } from '../../ui/Button'
import { Empty, Problem, Skeleton } from '../../ui/States'
import { useMachines } from '../machines/place'

interface Wanted {
  q?: string
  /** Only what the newest archive does not have. */
  gone?: boolean
  /** The key of the machine whose repositories are searched, such as `agent:1`; `local`: the service's own. */
  machine?: string
}

/** Search files by name, in every repository that the user may see. */
export function Search() {
  const search = useSearch({ strict: false }) as Wanted
  const chosen = useChosen<Wanted>()
  const choose = useChoose<Wanted>()
  const [text, setText] = useState(search.q ?? '')
  const asked = search.q ?? ''
  const gone = search.gone ?? false
  const machine = search.machine
  const results = useInfiniteQuery({
    queryKey: [...keys.searchAll(asked), gone, machine],
    queryFn: ({ pageParam }) =>
      data(
        api.GET('/api/search', {
          params: {
            query: {
              q: asked,
              deleted_only: gone,
              'machine[]': machine ? [machine] : undefined,
              limit: 100,
              cursor: pageParam,
            },
          },
        }),
      ),
    initialPageParam: undefined as string | undefined,
    getNextPageParam: (page) => page.next_cursor ?? undefined,
    enabled: asked !== '',
  })
  const hits = results.data?.pages.flatMap((page) => page.results) ?? []
  const coverage = results.data?.pages.at(-1)?.coverage
  const { hasNextPage, isFetching, fetchNextPage } = results
  // A page ends after two seconds of searching, so an empty one is not final.
  useEffect(() => {
    if (hasNextPage && !isFetching && hits.length < 100) void fetchNextPage()
  }, [hasNextPage, isFetching, fetchNextPage, hits.length])
  const pending = isFetching || (hasNextPage && hits.length < 100)
  return (
    <main>
      <h1 className="gap">Search</h1>
      <form
        className="row filters"
        onSubmit={(event) => {
          event.preventDefault()
          choose({ q: text }, false)
        }}
      >
        <input
          className="input search-field"
          value={text}
          onChange={(event) => setText(event.target.value)}
          aria-label="Part of a file name"
          placeholder="Part of a file name, or of the path if it contains a slash"
        />
        <button
          type="button"
          className="chip"
          aria-pressed={chosen.gone ?? false}
          onClick={() => choose({ gone: chosen.gone ? undefined : true }, false)}
        >
          only deleted files
        </button>
        <MachineFilter chosen={chosen.machine} choose={(key) => choose({ machine: key }, false)} />
        <button type="submit" className="button primary">
          Search
        </button>
      </form>
      {results.error && <Problem error={results.error} />}
      {coverage && (
        <p className="muted gap">
          {coverage.looked_at} of {counted(coverage.repositories, 'repository', 'repositories')} searched.
          {coverage.incomplete_count > 0 &&
            ` Not all archives are indexed in ${coverage.incomplete.map((one) => one.repository_name).join(', ')}.`}
        </p>
      )}
      {pending && asked && hits.length === 0 && <Skeleton height={200} />}
      {!pending && asked && hits.length === 0 && <Empty>No file by that name in any archive.</Empty>}
      {!asked && <Empty>Type a part of the name: invoice, .env, or srv/www/index.</Empty>}
      {hits.length > 0 && (
        <div className="card scroll">
          <table>
            <thead>
              <tr>
                <th>Name</th>
                <th className="wide-only">Repository</th>
                <th className="right">Size</th>
                <th className="right wide-only">Changed</th>
                <th className="wide-only">Where</th>
              </tr>
            </thead>
            <tbody>
              {hits.map((hit) => {
                const folder = hit.path.split('/').slice(0, -1).join('/')
                return (
                  <tr key={`${hit.repository_id}:${hit.path_b64 ?? hit.path}`}>
                    <td>
                      <Link
                        to="/files/$id"
                        params={{ id: String(hit.repository_id) }}
                        search={
                          { at: hit.last_archive_id, path: folder || undefined, sel: hit.path_b64 ?? hit.path } as never
                        }
                        className="name wrap"
                      >
                        {hit.path.slice(folder.length).replace(/^\//, '') || hit.path}
                      </Link>
                      {folder && <span className="sub path-end" title={folder}>{`\u200e${folder}`}</span>}
                      <span className="sub narrow-only">
                        in {hit.repository_name}
                        {!hit.present_in_latest && ', deleted since'}
                      </span>
                    </td>
                    <td className="wide-only soft">{hit.repository_name}</td>
                    <td className="right number">{hit.size === null ? '' : bytes(hit.size)}</td>
                    <td className="right number wide-only soft">{hit.mtime ? shortDay(hit.mtime) : ''}</td>
                    <td className="wide-only">
                      {hit.present_in_latest ? (
                        <span className="soft">in {counted(hit.archive_count, 'archive')}</span>
                      ) : (
                        <span className="tag bad">gone, in {counted(hit.archive_count, 'archive')}</span>
                      )}
                    </td>
                  </tr>
                )
              })}
            </tbody>
          </table>
        </div>
      )}
      {hasNextPage && hits.length >= 100 && (
        <Button disabled={isFetching} onClick={() => void fetchNextPage()}>
          Show more
        </Button>
      )}
    </main>
  )
}

/** For admins: only they see the machines. Repositories of others say by their names what they are of. */
function MachineFilter({ chosen, choose }: { chosen?: string; choose: (key?: string) => void }) {
  const isAdmin = useMe().data?.role === 'admin'
  const machines = useMachines(isAdmin).data?.machines ?? []
  if (machines.length === 0) return null
  return (
    <select
      className="input"
      aria-label="Machine"
      value={chosen ?? ''}
      onChange={(event) => choose(event.target.value || undefined)}
    >
      <option value="">All machines</option>
      <option value="local">The service's own machine</option>
      {machines.map((one) => (
        <option key={one.key} value={one.key}>
          {one.name}
        </option>
      ))}
    </select>
  )
}
