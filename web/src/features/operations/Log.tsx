import { useQuery } from '@tanstack/react-query'
import { useVirtualizer } from '@tanstack/react-virtual'
import { useEffect, useRef, useState } from 'react'
import { api, data, type Schemas } from '../../api/client'
import { save } from '../../api/downloads'
import { keys } from '../../api/keys'
import { counted } from '../../lib/numbers'
import { Button } from '../../ui/Button'
import { Loaded, Problem } from '../../ui/States'

type Detail = Schemas['OperationDetail']
const PAGE = 500
const LINE = 20
const MARGIN = 20
const KEPT_PAGES = 40
/** Milliseconds until a page that could not be fetched is requested again. */
const PAUSE = 2000
const MOST_HEIGHT = 8_000_000

/** The whole log, however long: only the pages that are looked at are fetched. */
export function Log({ operation }: { operation: Detail }) {
  const active = operation.status === 'running' || operation.status === 'pending'
  const [follow, setFollow] = useState(active)
  const [error, setError] = useState<unknown>(null)
  const size = useQuery({
    queryKey: [...keys.log(operation.id), 'size'],
    queryFn: () =>
      data(
        api.GET('/api/operations/{operation_id}/logs', {
          params: { path: { operation_id: operation.id }, query: { offset: 0, limit: 1 } },
        }),
      ),
    refetchInterval: active ? 1000 : false,
    enabled: operation.has_logs || active,
  })
  const [wanted, setWanted] = useState<number | null>(null)
  const [text, setText] = useState('')
  const find = async () => {
    let offset = wanted ?? 0
    for (;;) {
      const query = { find: text, offset, limit: 1 }
      const page = await data(
        api.GET('/api/operations/{operation_id}/logs', { params: { path: { operation_id: operation.id }, query } }),
      )
      if (page.next_match || !page.has_more) return setWanted(page.next_match ?? null)
      offset = page.searched_to ?? page.log_lines
    }
  }
  const download = () => save({ operation_id: operation.id }).catch(setError)
  if (!operation.has_logs && !active) return <p className="muted">No log.</p>
  return (
    <section aria-label="Log" className="stack">
      <div className="row log-tools">
        <h2>Log</h2>
        <span className="muted number">{size.data ? counted(size.data.log_lines, 'line') : ''}</span>
        <span className="grow" />
        <form
          className="row"
          onSubmit={(event) => {
            event.preventDefault()
            setFollow(false)
            if (text) find().catch(setError)
          }}
        >
          <input
            className="input"
            value={text}
            aria-label="Find in the log"
            placeholder="Find"
            onChange={(event) => {
              setText(event.target.value)
              setWanted(null)
            }}
          />
        </form>
        {active && (
          <button type="button" className="chip" aria-pressed={follow} onClick={() => setFollow(!follow)}>
            Follow
          </button>
        )}
        {!active && (
          <Button acts icon="download" onClick={() => void download()}>
            Download
          </Button>
        )}
      </div>
      {error !== null && <Problem error={error} />}
      <Loaded query={size} height={240}>
        {(page) => (
          <Lines
            id={operation.id}
            total={page.log_lines}
            wanted={wanted}
            follow={active && follow}
            onLeave={() => setFollow(false)}
          />
        )}
      </Loaded>
    </section>
  )
}

interface LinesProps {
  id: number
  total: number
  wanted: number | null
  follow: boolean
  onLeave: () => void
}

function Lines({ id, total, wanted, follow, onLeave }: LinesProps) {
  const box = useRef<HTMLDivElement>(null)
  const pages = usePages(id, total)
  // Browsers cap the height of an element, so a log beyond the cap is scrolled at a scale.
  const scaled = Math.max(1, (total * LINE) / MOST_HEIGHT)
  const rows = useVirtualizer({
    count: Math.ceil(total / scaled),
    getScrollElement: () => box.current,
    estimateSize: () => LINE,
    overscan: 10,
  })
  useEffect(() => {
    if (follow && total > 0) rows.scrollToIndex(Math.ceil(total / scaled) - 1, { align: 'end' })
  }, [follow, total, scaled, rows])
  useEffect(() => {
    if (wanted !== null) rows.scrollToIndex(Math.floor((wanted - 1) / scaled), { align: 'start' })
  }, [wanted, scaled, rows])
  const items = rows.getVirtualItems()
  const first = items[0]
  const firstLine = first ? Math.min(Math.floor(first.index * scaled), Math.max(0, total - items.length)) : 0
  if (total === 0) return <p className="muted">No lines yet.</p>
  return (
    <div
      ref={box}
      className="card log"
      // biome-ignore lint/a11y/noNoninteractiveTabindex: a scrolled region must be reachable by keyboard
      tabIndex={0}
      role="log"
      aria-label="Log lines"
      style={{ maxHeight: total * LINE + MARGIN }}
      onWheel={(event) => event.deltaY < 0 && onLeave()}
    >
      <div style={{ height: rows.getTotalSize(), position: 'relative' }}>
        {items.map((item, place) => {
          const number = firstLine + place
          return (
            <div
              key={number}
              className="log-line"
              aria-current={number + 1 === wanted || undefined}
              style={{ transform: `translateY(${item.start}px)` }}
            >
              <span className="muted number">{number + 1}</span>
              <span>{pages.line(number)}</span>
            </div>
          )
        })}
      </div>
    </div>
  )
}

function usePages(id: number, total: number): { line: (number: number) => string } {
  const [, redraw] = useState(0)
  const kept = useRef(new Map<number, string[]>())
  const asked = useRef(new Set<string>())
  const line = (number: number): string => {
    const page = Math.floor(number / PAGE)
    const lines = kept.current.get(page)
    const found = lines?.[number % PAGE]
    if (found === undefined && number < total) {
      const key = `${page}:${lines ? total : 0}`
      if (!asked.current.has(key)) {
        asked.current.add(key)
        fetchPage(id, page).then(
          (fresh) => {
            kept.current.set(page, fresh)
            for (const old of kept.current.keys()) {
              if (kept.current.size <= KEPT_PAGES) break
              kept.current.delete(old)
              asked.current.delete(`${old}:0`)
            }
            redraw((count) => count + 1)
          },
          () => {
            asked.current.delete(key)
            window.setTimeout(() => redraw((count) => count + 1), PAUSE)
          },
        )
      }
    }
    return found ?? ''
  }
  return { line }
}

async function fetchPage(id: number, page: number): Promise<string[]> {
  const query = { offset: page * PAGE, limit: PAGE }
  const answer = await data(
    api.GET('/api/operations/{operation_id}/logs', { params: { path: { operation_id: id }, query } }),
  )
  return answer.lines.map((one) => one.content)
}
