import { useQueries, useQuery } from '@tanstack/react-query'
import { Link, useNavigate, useSearch } from '@tanstack/react-router'
import { useState } from 'react'
import { api, data, type Schemas } from '../../api/client'
import { keys } from '../../api/keys'
import { bytes, counted } from '../../lib/numbers'
import { shortDay } from '../../lib/time'
import { Empty, Problem, Skeleton } from '../../ui/States'

type Hit = Schemas['SearchHit'] & { repository: Schemas['RepositoryAnswer'] }

/** A file by its name, in every repository that one may see. */
export function Search() {
  const search = useSearch({ strict: false }) as { q?: string; gone?: boolean }
  const navigate = useNavigate()
  const [text, setText] = useState(search.q ?? '')
  const repositories = useQuery({ queryKey: keys.repositories, queryFn: () => data(api.GET('/api/repositories/')) })
  const known = repositories.data?.repositories ?? []
  const asked = search.q ?? ''
  const results = useQueries({
    queries: asked
      ? known.map((one) => ({
          queryKey: [...keys.search(one.id, asked), search.gone ?? false],
          queryFn: () =>
            data(
              api.GET('/api/repositories/{repository_id}/search', {
                params: {
                  path: { repository_id: one.id },
                  query: { q: asked, limit: 50, deleted_only: search.gone ?? false },
                },
              }),
            ),
        }))
      : [],
  })
  const hits: Hit[] = results.flatMap((result, index) =>
    (result.data?.results ?? []).map((hit) => ({ ...hit, repository: known[index] as Schemas['RepositoryAnswer'] })),
  )
  const pending = results.some((result) => result.isPending) || repositories.isPending
  const failed = results.find((result) => result.error)?.error
  const covered = results.filter(
    (result) => result.data && result.data.coverage.unindexed_archive_ids.length === 0,
  ).length
  return (
    <main>
      <h1 className="gap">Search</h1>
      <form
        className="row filters"
        onSubmit={(event) => {
          event.preventDefault()
          void navigate({ to: '/search', search: { q: text, gone: search.gone } })
        }}
      >
        <input
          className="input"
          value={text}
          onChange={(event) => setText(event.target.value)}
          aria-label="Part of a file's name"
          placeholder="Part of a file's name, or of its path with a slash"
        />
        <button
          type="button"
          className="chip"
          aria-pressed={search.gone ?? false}
          onClick={() => void navigate({ to: '/search', search: { q: asked, gone: search.gone ? undefined : true } })}
        >
          only what is gone
        </button>
        <button type="submit" className="button primary">
          Search
        </button>
      </form>
      {failed && <Problem error={failed} />}
      {asked && (
        <p className="muted gap">
          {covered} of {counted(known.length, 'repository', 'repositories')} searched whole.
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
                <th>Path</th>
                <th>Repository</th>
                <th className="right">Size</th>
                <th className="right wide-only">Changed</th>
                <th className="wide-only">Where</th>
              </tr>
            </thead>
            <tbody>
              {hits.map((hit) => {
                const folder = hit.path.split('/').slice(0, -1).join('/')
                return (
                  <tr key={`${hit.repository.id}:${hit.path_b64 ?? hit.path}`}>
                    <td>
                      <Link
                        to="/files/$id"
                        params={{ id: String(hit.repository.id) }}
                        search={
                          { at: hit.last_seen, path: folder || undefined, sel: hit.path_b64 ?? hit.path } as never
                        }
                        className="name wrap"
                      >
                        {hit.path}
                      </Link>
                    </td>
                    <td className="soft">{hit.repository.name}</td>
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
    </main>
  )
}
