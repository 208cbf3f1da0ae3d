import { keepPreviousData, useInfiniteQuery, useMutation, useQuery } from '@tanstack/react-query'
import { Link } from '@tanstack/react-router'
import { useState } from 'react'
import { api, data, type Schemas } from '../../api/client'
import { keys } from '../../api/keys'
import { bytes, count, counted } from '../../lib/numbers'
import { duration, moment, zone } from '../../lib/time'
import { Button } from '../../ui/Button'
import { Confirm } from '../../ui/Confirm'
import { Dialog } from '../../ui/Dialog'
import { Heatmap } from '../../ui/Heatmap'
import { Icon } from '../../ui/Icon'
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
                No archives yet. The first backup creates one.
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
              {shown.length === 0 && <Empty>No archive name contains this.</Empty>}
              {shown.length > 0 && (
                <Table
                  repository={id}
                  archives={shown}
                  acts={repository?.actions ?? []}
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
  protected: 'kept only by its protection',
}

const keptAs = (rule: string | null) => {
  if (rule === null) return 'removed at the next prune'
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
  acts,
  hasRules,
  onDelete,
}: {
  repository: number
  archives: Archive[]
  acts: string[]
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
            <th className="right wide-only">Files</th>
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
                {one.protected_at && (
                  <span className="sub protected">
                    <Icon name="lock" /> protected
                  </span>
                )}
                {one.proven_at && <span className="sub">read back {moment(one.proven_at)}</span>}
                {one.lost_at && <span className="sub">lost with a newer state of the repository</span>}
                {one.history_state === 'failed' && <span className="sub">its files could not be indexed</span>}
              </td>
              <td className="wide-only soft">
                <span className="clip" title={one.name}>
                  {one.name}
                </span>
              </td>
              <td className="right number wide-only">{one.nfiles === null ? '' : count(one.nfiles)}</td>
              <td className="right number">{one.original_size === null ? '' : bytes(one.original_size)}</td>
              <td className="right number wide-only">
                {one.deduplicated_size === null ? '' : bytes(one.deduplicated_size)}
              </td>
              <td className="right number wide-only soft">
                {one.duration_seconds === null ? '' : duration(one.duration_seconds)}
              </td>
              {hasRules && <td className="wide-only soft">{one.lost_at ? '' : keptAs(one.keep_rule)}</td>}
              <td className="right acts">
                {acts.includes('protect') && one.lost_at === null && <Protect archive={one} />}
                {acts.includes('delete_archive') && (
                  <Button
                    small
                    kind="plain"
                    disabled={one.protected_at !== null}
                    title={one.protected_at ? 'It is protected. Remove its protection first.' : undefined}
                    aria-label={`Delete archive of ${moment(one.start)}`}
                    onClick={() => onDelete(one)}
                  >
                    Delete…
                  </Button>
                )}
              </td>
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  )
}

/** One press protects: nothing is lost by it. Taking the protection away is a question. */
function Protect({ archive }: { archive: Archive }) {
  const refresh = useInvalidate(archive.repository_id)
  const [asked, setAsked] = useState(false)
  const isProtected = archive.protected_at !== null
  const put = useMutation({
    mutationFn: () =>
      data(
        api.PUT('/api/repositories/{repository_id}/archives/{archive_id}', {
          params: { path: { repository_id: archive.repository_id, archive_id: archive.id } },
          body: { protected: !isProtected },
        }),
      ),
    onSuccess: () => {
      refresh()
      setAsked(false)
    },
    onError: () => setAsked(true),
  })
  return (
    <>
      {isProtected ? (
        <Button
          small
          kind="plain"
          icon="unlock"
          title="Remove the protection…"
          aria-label={`Remove the protection of the archive of ${moment(archive.start)}`}
          onClick={() => setAsked(true)}
        />
      ) : (
        <Button
          acts
          small
          kind="plain"
          icon="lock"
          title="Protect: no prune, deletion or wipe removes it"
          aria-label={`Protect the archive of ${moment(archive.start)}`}
          disabled={put.isPending}
          onClick={() => put.mutate()}
        />
      )}
      {asked &&
        (isProtected ? (
          <Confirm
            title="Remove the protection?"
            act="Remove the protection"
            keep="Keep it protected"
            busy={put.isPending}
            error={put.error}
            onAct={() => put.mutate()}
            onClose={() => setAsked(false)}
          >
            <p>
              The archive of <b>{moment(archive.start)}</b> can then be deleted, and a prune removes it unless a rule
              keeps it.
            </p>
          </Confirm>
        ) : (
          <Dialog title="Not protected" onClose={() => setAsked(false)}>
            <Problem error={put.error} />
          </Dialog>
        ))}
    </>
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
        archives are not affected.
      </p>
      <Note>Files that exist only in this archive will be lost. Space is reclaimed at the next compaction.</Note>
      {remove.error && <Problem error={remove.error} />}
      <footer>
        <Button onClick={onClose}>Keep it</Button>
        <Button acts kind="danger" disabled={remove.isPending} onClick={() => remove.mutate()}>
          Delete archive
        </Button>
      </footer>
    </Dialog>
  )
}
