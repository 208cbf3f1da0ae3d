import { keepPreviousData, useInfiniteQuery } from '@tanstack/react-query'
import { Link, useNavigate, useSearch } from '@tanstack/react-router'
import { Fragment } from 'react'
import { api, data, type Schemas } from '../../api/client'
import { keys } from '../../api/keys'
import { useChoose, useChosen } from '../../lib/address'
import { count, counted } from '../../lib/numbers'
import { clockTime, duration } from '../../lib/time'
import { kindWord, statusOf } from '../../lib/words'
import { Button } from '../../ui/Button'
import { Glyph } from '../../ui/Glyph'
import { Empty, Loaded } from '../../ui/States'

type Item = Schemas['OperationItem']
const STATUSES = ['failed', 'completed_with_warnings', 'completed', 'cancelled', 'running'] as const
const CATEGORIES = [
  ['backup', 'Backups'],
  ['restore', 'Restores'],
  ['maintenance', 'Maintenance'],
  ['index', 'Index'],
] as const

export interface ActivitySearch {
  status?: string
  category?: string
  repository?: number
  q?: string
}

export function Activity() {
  const search = useSearch({ strict: false }) as ActivitySearch
  const navigate = useNavigate()
  const filter = {
    limit: 100,
    ...(search.status ? { 'status[]': [search.status] } : {}),
    ...(search.category ? { 'category[]': [search.category] } : {}),
    ...(search.repository ? { repository_id: search.repository } : {}),
    ...(search.q ? { q: search.q } : {}),
  }
  const query = useInfiniteQuery({
    queryKey: keys.operations(filter),
    queryFn: ({ pageParam }) =>
      data(api.GET('/api/operations/', { params: { query: { ...filter, cursor: pageParam } } })),
    initialPageParam: undefined as string | undefined,
    getNextPageParam: (page) => page.next_cursor ?? undefined,
    placeholderData: keepPreviousData,
  })
  return (
    <main>
      <h1 className="gap">Activity</h1>
      <Filters />
      <Loaded query={query} height={400}>
        {(pages) => {
          const items = pages.pages.flatMap((page) => page.items)
          if (items.length === 0 && query.hasNextPage)
            return (
              <Empty>
                No match among the newest 20,000.{' '}
                <button type="button" className="link" onClick={() => void query.fetchNextPage()}>
                  Search older ones
                </button>
              </Empty>
            )
          if (items.length === 0 && Object.values(search).every((value) => value === undefined))
            return <Empty command="holdfast backup NAME">Nothing has run yet.</Empty>
          if (items.length === 0)
            return (
              <Empty>
                Nothing matches.{' '}
                <button type="button" className="link" onClick={() => void navigate({ to: '/activity', search: {} })}>
                  Show everything
                </button>
              </Empty>
            )
          return (
            <>
              <OperationTable items={items} />
              <p className="muted" style={{ marginTop: 8 }}>
                {total(pages.pages[0]?.total)}
              </p>
              {query.hasNextPage && (
                <p className="row gap" style={{ marginTop: 12 }}>
                  <Button disabled={query.isFetchingNextPage} onClick={() => void query.fetchNextPage()}>
                    Show older
                  </Button>
                </p>
              )}
            </>
          )
        }}
      </Loaded>
    </main>
  )
}

function Filters() {
  const search = useChosen<ActivitySearch>()
  const change = useChoose<ActivitySearch>()
  return (
    <div className="row filters">
      {CATEGORIES.map(([category, words]) => (
        <button
          type="button"
          className="chip"
          key={category}
          aria-pressed={search.category === category}
          onClick={() => change({ category: search.category === category ? undefined : category })}
        >
          {words}
        </button>
      ))}
      <span className="muted">·</span>
      {STATUSES.map((status) => (
        <button
          type="button"
          className="chip"
          key={status}
          aria-pressed={search.status === status}
          onClick={() => change({ status: search.status === status ? undefined : status })}
        >
          {statusOf(status).word}
        </button>
      ))}
      <span className="grow" />
      <form
        onSubmit={(event) => {
          event.preventDefault()
          change({ q: String(new FormData(event.currentTarget).get('q') ?? '').trim() || undefined })
        }}
      >
        <input
          className="input"
          type="search"
          name="q"
          key={search.q}
          defaultValue={search.q}
          placeholder="Name, user or error"
          aria-label="Search activity by name, user or error"
        />
      </form>
    </div>
  )
}

const MOST_COUNTED = 10_000
const total = (found: number | null | undefined) =>
  found === null || found === undefined
    ? ''
    : found >= MOST_COUNTED
      ? `${count(MOST_COUNTED)} or more operations`
      : counted(found, 'operation')
const dayOf = (item: Item) => new Date(item.created_at).toDateString()
const dayWords = new Intl.DateTimeFormat('en-GB', { weekday: 'long', day: 'numeric', month: 'long' })

export function OperationTable({ items }: { items: Item[] }) {
  return (
    <div className="card scroll">
      <table className="operations">
        <thead>
          <tr>
            <th>When</th>
            <th>What</th>
            <th>Result</th>
            <th className="wide-only">By</th>
            <th className="wide-only right">Took</th>
          </tr>
        </thead>
        <tbody>
          {items.map((item, index) => (
            <Fragment key={item.id}>
              {(index === 0 || dayOf(items[index - 1] as Item) !== dayOf(item)) && (
                <tr className="day-row">
                  <th colSpan={5} scope="rowgroup">
                    {dayWords.format(new Date(item.created_at))}
                  </th>
                </tr>
              )}
              <Row item={item} />
            </Fragment>
          ))}
        </tbody>
      </table>
    </div>
  )
}

function Row({ item }: { item: Item }) {
  const navigate = useNavigate()
  const status = statusOf(item.status)
  const open = () => void navigate({ to: '/operations/$id', params: { id: String(item.id) } })
  return (
    <tr className="open" onClick={(event) => (event.target as HTMLElement).closest('a') === null && open()}>
      <td className="number soft">{clockTime(item.started_at ?? item.created_at)}</td>
      <td>
        <Link to="/operations/$id" params={{ id: String(item.id) }} className="name">
          {kindWord(item.kind)} {item.repository && <span className="soft">of {item.repository}</span>}
        </Link>
      </td>
      <td>
        <span className="evidence" title={item.error_message ?? undefined}>
          <Glyph name={status.glyph} />
          <span>
            {status.word}
            {item.error_message && <span className="sub clip">{item.error_message}</span>}
          </span>
        </span>
      </td>
      <td className="wide-only soft">{item.schedule_name ?? item.triggered_by ?? item.trigger}</td>
      <td className="wide-only right number soft">
        {item.duration_seconds === null ? '' : duration(item.duration_seconds)}
      </td>
    </tr>
  )
}
