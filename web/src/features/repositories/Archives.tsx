import { keepPreviousData, useInfiniteQuery, useMutation, useQuery } from '@tanstack/react-query'
import { Link } from '@tanstack/react-router'
import { useState } from 'react'
import { api, data, type Schemas } from '../../api/client'
import { keys } from '../../api/keys'
import { bytes, count, counted } from '../../lib/numbers'
import { duration, moment, zone } from '../../lib/time'
import { Button } from '../../ui/Button'
import { Dialog } from '../../ui/Dialog'
import { Heatmap } from '../../ui/Heatmap'
import { Empty, Loaded, Note, Problem } from '../../ui/States'
import { Growth } from './Growth'
import { Sizes, useInvalidate, useRepository, useRepositoryId } from './Repository'

type Archive = Schemas['ListedArchive']

export function Archives() {
  const id = useRepositoryId()
  const repository = useRepository(id).data
  const [day, setDay] = useState<string | null>(null)
  const [text, setText] = useState('')
  const [deleting, setDeleting] = useState<Archive | null>(null)
  const heat = useQuery({
    queryKey: keys.heatmap(id),
    queryFn: () =>
      data(
        api.GET('/api/repositories/{repository_id}/archives/heatmap', {
          params: { path: { repository_id: id }, query: { tz: zone } },
        }),
      ),
  })
  const query = useInfiniteQuery({
    queryKey: [...keys.archives(id), text],
    placeholderData: keepPreviousData,
    queryFn: ({ pageParam }) =>
      data(
        api.GET('/api/repositories/{repository_id}/archives', {
          params: {
            path: { repository_id: id },
            query: { limit: 200, cursor: pageParam, rules: true, q: text || undefined },
          },
        }),
      ),
    initialPageParam: undefined as string | undefined,
    getNextPageParam: (page) => page.next_cursor ?? undefined,
  })
  return (
    <>
      <Loaded query={heat} height={140}>
        {(found) =>
          found.repository.days.length ? (
            <Heatmap heatmap={found} chosen={day} onDay={(next) => setDay(next === day ? null : next)} />
          ) : null
        }
      </Loaded>
      <Growth id={id} />
      <Loaded query={query} height={300}>
        {(pages) => {
          const all = pages.pages.flatMap((page) => page.archives)
          const shown = day ? all.filter((one) => localDay(one.start) === day) : all
          if (all.length === 0 && !text)
            return (
              <Empty command={`holdfast backup ${repository?.name ?? 'NAME'}`}>
                No archive yet. The first backup makes one.
              </Empty>
            )
          return (
            <>
              <div className="head">
                <h2>{day ? `Archives of ${day}` : 'Archives'}</h2>
                {!day && <span className="muted number">{count(pages.pages[0]?.total ?? all.length)}</span>}
                {(all.length > 10 || text) && (
                  <input
                    className="input"
                    style={{ width: 180 }}
                    type="search"
                    placeholder="Filter by name"
                    aria-label="Filter the archives by name"
                    value={text}
                    onChange={(event) => setText(event.target.value)}
                  />
                )}
                {day && (
                  <button type="button" className="link" onClick={() => setDay(null)}>
                    show all
                  </button>
                )}
                <span className="end">{repository && <Sizes repository={repository} />}</span>
              </div>
              {shown.length === 0 && <Empty>No archive has this in its name.</Empty>}
              {shown.length > 0 && (
                <Table
                  repository={id}
                  archives={shown}
                  hasRules={Object.values(repository?.retention ?? {}).some(Boolean)}
                  onDelete={setDeleting}
                />
              )}
              {query.hasNextPage && (
                <p style={{ marginTop: 12 }}>
                  <Button onClick={() => void query.fetchNextPage()}>Show older</Button>
                </p>
              )}
            </>
          )
        }}
      </Loaded>
      {deleting && <Delete archive={deleting} onClose={() => setDeleting(null)} />}
    </>
  )
}

/** Names of rules that the engine has other words for. */
const RULE_WORDS: Record<string, string> = {
  secondly: 'one of the newest',
  keep: 'one of the newest',
  quarterly_3monthly: 'quarterly',
}

const keptAs = (rule: string | null) => {
  if (rule === null) return 'goes at the next prune'
  const name = rule.replace(/\W.*/, '')
  return rule.endsWith('[oldest]') ? 'the oldest' : (RULE_WORDS[name] ?? name)
}

const localDay = (at: string) => {
  const date = new Date(at)
  return `${date.getFullYear()}-${String(date.getMonth() + 1).padStart(2, '0')}-${String(date.getDate()).padStart(2, '0')}`
}

function Table({
  repository,
  archives,
  hasRules,
  onDelete,
}: {
  repository: number
  archives: Archive[]
  hasRules: boolean
  onDelete: (one: Archive) => void
}) {
  return (
    <div className="card scroll">
      <table>
        <thead>
          <tr>
            <th>Made</th>
            <th className="wide-only">Name</th>
            <th className="right">Files</th>
            <th className="right">Size</th>
            <th className="right wide-only">New data</th>
            <th className="right wide-only">Took</th>
            {hasRules && <th className="wide-only">Kept as</th>}
            <th>
              <span className="visually-hidden">Acts</span>
            </th>
          </tr>
        </thead>
        <tbody>
          {archives.map((one) => (
            <tr key={one.id}>
              <td>
                <Link to="/files/$id" params={{ id: String(repository) }} search={{ at: one.id }} className="name">
                  {moment(one.start)}
                </Link>
                {one.proven_at && <span className="sub">read back {moment(one.proven_at)}</span>}
                {one.lost_at && <span className="sub">lost with a newer state of the repository</span>}
                {one.history_state === 'failed' && <span className="sub">its files could not be indexed</span>}
              </td>
              <td className="wide-only soft">
                <span className="clip" title={one.name}>
                  {one.name}
                </span>
              </td>
              <td className="right number">{one.nfiles === null ? '' : count(one.nfiles)}</td>
              <td className="right number">{one.original_size === null ? '' : bytes(one.original_size)}</td>
              <td className="right number wide-only">
                {one.deduplicated_size === null ? '' : bytes(one.deduplicated_size)}
              </td>
              <td className="right number wide-only soft">
                {one.duration_seconds === null ? '' : duration(one.duration_seconds)}
              </td>
              {hasRules && <td className="wide-only soft">{one.lost_at ? '' : keptAs(one.keep_rule)}</td>}
              <td className="right">
                <Button
                  small
                  kind="plain"
                  aria-label={`Delete the archive of ${moment(one.start)}`}
                  onClick={() => onDelete(one)}
                >
                  Delete…
                </Button>
              </td>
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  )
}

function Delete({ archive, onClose }: { archive: Archive; onClose: () => void }) {
  const refresh = useInvalidate(archive.repository_id)
  const remove = useMutation({
    mutationFn: () =>
      data(api.DELETE('/api/archives/{archive_id}', { params: { path: { archive_id: String(archive.id) } } })),
    onSuccess: () => {
      refresh()
      onClose()
    },
  })
  return (
    <Dialog title="Delete this archive?" onClose={onClose}>
      <p>
        The archive of <b>{moment(archive.start)}</b>
        {archive.nfiles !== null && ` with ${counted(archive.nfiles, 'file')}`} can then no longer be restored. Other
        archives stay whole.
      </p>
      <Note>Files that exist only in this archive will exist nowhere. Space is freed at the next compaction.</Note>
      {remove.error && <Problem error={remove.error} />}
      <footer>
        <Button onClick={onClose}>Keep it</Button>
        <Button kind="danger" disabled={remove.isPending} onClick={() => remove.mutate()}>
          Delete the archive
        </Button>
      </footer>
    </Dialog>
  )
}
