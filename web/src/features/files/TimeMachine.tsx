import { keepPreviousData, useQuery } from '@tanstack/react-query'
import { Link, useParams } from '@tanstack/react-router'
import { useEffect, useRef } from 'react'
import { keys } from '../../api/keys'
import { useChoose, useChosen } from '../../lib/address'
import { counted } from '../../lib/numbers'
import { Icon } from '../../ui/Icon'
import { Empty, Loaded } from '../../ui/States'
import { useRepository } from '../repositories/Repository'
import { Folder } from './Folder'
import { key, type Lanes } from './model'
import type { Change, Search } from './times'
import { readLanes } from './whole'

/** Names that are shown before the others of a folder have come. */
const FIRST = 1000

/** A folder, seen through time. */
export function TimeMachine() {
  const id = Number((useParams({ strict: false }) as { id: string }).id)
  return <Machine key={id} id={id} />
}

function Machine({ id }: { id: number }) {
  const search = useChosen<Search>()
  const change = useChoose<Search>()
  const where = search.pathb64 ? { path_b64: search.pathb64 } : { path: search.path ?? '' }
  const query = useQuery({
    queryKey: keys.lanes(id, search.pathb64 ?? search.path ?? ''),
    queryFn: () => readLanes(id, where, FIRST),
    placeholderData: keepPreviousData,
  })
  useDescent(query.isPlaceholderData ? undefined : query.data, search, change)
  return (
    <div className="time-machine">
      <Path id={id} search={search} />
      {!query.data ? (
        <main>
          <Loaded query={query} height={400} page>
            {() => null}
          </Loaded>
        </main>
      ) : query.data.archives.length === 0 ? (
        <NoIndex id={id} lanes={query.data} />
      ) : (
        <Folder
          key={key(query.data)}
          id={id}
          first={query.data}
          isOld={query.isPlaceholderData}
          search={search}
          change={change}
        />
      )}
    </div>
  )
}

/** Who opens a repository begins in the first folder that holds more than another folder. */
function useDescent(lanes: Lanes | undefined, search: Search, change: Change) {
  const descending = useRef(!search.path && !search.pathb64 && !search.top)
  useEffect(() => {
    if (search.top) descending.current = false
    if (!descending.current || !lanes) return
    const only = lanes.entries.length === 1 ? lanes.entries[0] : undefined
    if (only?.type === 'd') change({ path: only.path, pathb64: only.path_b64 ?? undefined })
    else descending.current = false
  })
}

function NoIndex({ id, lanes }: { id: number; lanes: Lanes }) {
  return (
    <main>
      <Empty>
        {lanes.coverage.total === 0
          ? 'No archives yet. The first backup creates one.'
          : `${counted(lanes.coverage.total, 'archive')} not indexed yet. Files appear here once they are.`}{' '}
        <Link to="/repositories/$id/activity" params={{ id: String(id) }} className="link">
          Running and failed work
        </Link>
      </Empty>
    </main>
  )
}

function Path({ id, search }: { id: number; search: Search }) {
  const repository = useRepository(id).data
  const parts = (search.path ?? '').split('/').filter(Boolean)
  return (
    <section className="path-bar" aria-label="Place">
      <Link to="/repositories/$id" params={{ id: String(id) }} className="button">
        <Icon name="repository" />
        {repository?.name ?? `Repository ${id}`}
      </Link>
      <nav aria-label="Folder" className="crumbs">
        <Link
          to="/files/$id"
          params={{ id: String(id) }}
          search={{ at: search.at, vs: search.vs, top: true } as never}
          activeOptions={{ exact: true, includeSearch: true }}
        >
          /
        </Link>
        {parts.map((part, index) => (
          <Link
            key={parts.slice(0, index + 1).join('/')}
            to="/files/$id"
            params={{ id: String(id) }}
            search={{ at: search.at, vs: search.vs, path: parts.slice(0, index + 1).join('/') } as never}
            aria-current={index === parts.length - 1 ? 'page' : undefined}
          >
            {part}
            {index < parts.length - 1 && ' /'}
          </Link>
        ))}
      </nav>
    </section>
  )
}
