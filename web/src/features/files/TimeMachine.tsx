import { keepPreviousData, useQuery } from '@tanstack/react-query'
import { Link, useNavigate, useParams, useSearch } from '@tanstack/react-router'
import { useVirtualizer } from '@tanstack/react-virtual'
import { type ReactNode, type RefObject, useDeferredValue, useEffect, useMemo, useRef, useState } from 'react'
import { keys } from '../../api/keys'
import { bytes, count, counted } from '../../lib/numbers'
import { refusalWord } from '../../lib/words'
import { Button } from '../../ui/Button'
import { Icon } from '../../ui/Icon'
import { Empty, Loaded, Note, Problem } from '../../ui/States'
import { useRepository } from '../repositories/Repository'
import { Comparison } from './Comparison'
import { Dock } from './Dock'
import { download } from './download'
import { Inspector } from './Inspector'
import { at, changeBeside, key, type Lane, type Lanes, named, ordered } from './model'
import { RestoreSheet } from './RestoreSheet'
import { Row } from './Row'
import { bySize, sizeAt, useFolderFacts } from './sizes'
import { MOST, readLanes, useWhole } from './whole'

/** Names that are shown before the others of a folder have come. */
const FIRST = 1000
/** Rows up to which all are drawn; and the heights that the styles give to a row and to the head. */
const SHORT = 200
const ROW = 37
const NARROW_ROW = 48
const HEAD = 32
/** Names from which on a folder has a filter, and how long typing rests before the address has it too. */
const MANY = 12
const TYPED_MILLISECONDS = 400

interface Search {
  at?: number
  /** The earlier archive of a comparison; `at` is the later one. */
  vs?: number
  path?: string
  pathb64?: string
  sel?: string
  gone?: boolean
  top?: boolean
  sort?: 'size'
  /** A part of the names that are shown. */
  name?: string
}

/** A folder, seen through time. */
export function TimeMachine() {
  const id = Number((useParams({ strict: false }) as { id: string }).id)
  return <Machine key={id} id={id} />
}

function Machine({ id }: { id: number }) {
  const search = useSearch({ strict: false }) as Search
  const navigate = useNavigate()
  const where = search.pathb64 ? { path_b64: search.pathb64 } : { path: search.path ?? '' }
  const query = useQuery({
    queryKey: keys.lanes(id, search.pathb64 ?? search.path ?? ''),
    queryFn: () => readLanes(id, where, FIRST),
    placeholderData: keepPreviousData,
  })
  const change = (next: Partial<Search>, replace = false) =>
    void navigate({ to: '/files/$id', params: { id: String(id) }, search: { ...search, ...next } as never, replace })
  useDescent(id, query.isPlaceholderData ? undefined : query.data, search, change)
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
function useDescent(
  id: number,
  lanes: Lanes | undefined,
  search: Search,
  change: (next: Partial<Search>, replace: boolean) => void,
) {
  const descending = useRef(!search.path && !search.pathb64 && !search.top)
  useEffect(() => {
    if (search.top) descending.current = false
    if (!descending.current || !lanes) return
    // Whoever has left for another page, which is still loading, is not brought back.
    if (window.location.pathname !== `/files/${id}`) return
    const only = lanes.entries.length === 1 ? lanes.entries[0] : undefined
    if (only?.type === 'd') change({ path: only.path, pathb64: only.path_b64 ?? undefined }, true)
    else descending.current = false
  })
}

function NoIndex({ id, lanes }: { id: number; lanes: Lanes }) {
  return (
    <main>
      <Empty>
        {lanes.coverage.total === 0
          ? 'No archives yet. The first backup makes one.'
          : `${counted(lanes.coverage.total, 'archive')} not indexed yet. Files appear here as soon as they are.`}{' '}
        <Link to="/repositories/$id/activity" params={{ id: String(id) }} className="link">
          What runs and what failed
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

function Folder({
  id,
  first,
  isOld,
  search,
  change,
}: {
  id: number
  first: Lanes
  /** These are still the names of the folder before. */
  isOld: boolean
  search: Search
  change: (next: Partial<Search>, replace?: boolean) => void
}) {
  const where = first.path_b64 ? { path_b64: first.path_b64 } : { path: first.path }
  const lanes = useWhole(id, where, isOld ? { ...first, next_cursor: null } : first)
  const times = useTimes(lanes.archives, search, change)
  const { step, versus, toStep } = times
  const box = useRef<HTMLDivElement>(null)
  const [chosen, setChosen] = useState<Set<string>>(new Set())
  const [restoring, setRestoring] = useState<{ lanes: Lane[]; step: number } | null>(null)
  const [refused, setRefused] = useState<unknown>(null)
  const saved = (download: Promise<void>) => void download.then(() => setRefused(null), setRefused)
  const [name, setName] = useFilter(search, isOld, change)
  const showGone = search.gone !== false
  const archive = lanes.archives[step]
  const steps = lanes.archives.length
  const hasFolders = useMemo(() => lanes.entries.some((lane) => lane.type === 'd'), [lanes.entries])
  const facts = useFolderFacts(id, archive?.id, lanes, hasFolders)
  const all = useMemo(() => ordered(lanes.entries), [lanes.entries])
  const text = useDeferredValue(name)
  const wanted = useMemo(() => named(all, text), [all, text])
  const shown = useMemo(
    () => (showGone ? wanted : wanted.filter((lane) => at(lane, step, steps).state === 'here')),
    [wanted, showGone, step, steps],
  )
  const rows = useMemo(
    () => (search.sort === 'size' ? bySize(shown, step, steps, facts) : shown),
    [search.sort, shown, step, steps, facts],
  )
  useKeys(lanes.archives, step, toStep)
  const selected = useMemo(
    () =>
      search.sel === undefined
        ? undefined
        : (versus === undefined ? rows : all).find((lane) => key(lane) === search.sel),
    [rows, all, versus, search.sel],
  )
  const picked = useMemo(
    () =>
      chosen.size === 0 ? [] : all.filter((lane) => chosen.has(key(lane)) && at(lane, step, steps).state === 'here'),
    [all, chosen, step, steps],
  )
  const open = (lane: Lane) =>
    lane.type === 'd'
      ? change({ path: lane.path, pathb64: lane.path_b64 ?? undefined, sel: undefined, name: undefined })
      : change({ sel: key(lane) }, true)
  const refusedBy = useRepository(id).data?.refusals.restore
  const refusal = refusedBy === undefined ? undefined : refusalWord(refusedBy)
  if (!archive) return null
  // What a comparison shows of a removed name is the earlier archive.
  const shownStep = versus !== undefined && selected && at(selected, step, steps).state === 'absent' ? versus : step
  const restored = restoring && lanes.archives[restoring.step]
  return (
    <div className="tm-body">
      <main className="tm-left">
        <div className="tm-tools">
          {versus === undefined && (all.length > MANY || name !== '') && (
            <input
              className="input tm-filter"
              type="search"
              placeholder="Filter by name"
              aria-label="Filter the names of this folder"
              value={name}
              onChange={(event) => setName(event.target.value)}
            />
          )}
          {versus === undefined ? (
            <label className="choice">
              <input
                type="checkbox"
                checked={showGone}
                onChange={(event) => change({ gone: event.target.checked ? undefined : false }, true)}
              />
              <span>Show what exists at other times</span>
            </label>
          ) : (
            <h2 className="choice">What differs between two times</h2>
          )}
          <span className="grow" />
          <Button
            small
            icon="compare"
            aria-pressed={versus !== undefined}
            disabled={steps < 2}
            title={steps < 2 ? 'There is only one archive.' : undefined}
            onClick={times.toggle}
          >
            <span className="tool-word">Compare two times</span>
          </Button>
          <Button
            acts
            small
            icon="download"
            onClick={() => saved(download(id, archive.id, [{ path: lanes.path, path_b64: lanes.path_b64 }], 'folder'))}
          >
            <span className="tool-word">Download folder</span>
          </Button>
        </div>
        {refused !== null && <Problem error={refused} />}
        {lanes.coverage.unindexed_archive_ids.length > 0 && (
          <Note warn>
            {lanes.coverage.indexed} of {counted(lanes.coverage.total, 'archive')} are indexed; the others are not shown
            here.
          </Note>
        )}
        {lanes.next_cursor !== null && (
          <Note>
            {lanes.entries.length < MOST
              ? `The first ${count(lanes.entries.length)} of ${count(lanes.total)} names; the others are being read.`
              : `The first ${count(lanes.entries.length)} of ${count(lanes.total)} names. Search finds the others.`}
          </Note>
        )}
        {versus !== undefined && (
          <Comparison
            id={id}
            lanes={lanes}
            from={versus}
            to={step}
            selected={search.sel}
            onOpen={(entry) =>
              change({ path: entry.path, pathb64: entry.path_b64 ?? undefined, sel: undefined, name: undefined })
            }
            onSelect={(lane) => change({ sel: key(lane) }, true)}
          />
        )}
        <div
          className="tm-rows"
          hidden={versus !== undefined}
          role="treegrid"
          aria-label="Files"
          aria-rowcount={rows.length}
          ref={box}
        >
          <div className="tm-grid tm-head" role="row">
            <span role="columnheader">
              <span className="visually-hidden">Chosen</span>
            </span>
            <Sorted label="Name" by={undefined} search={search} change={change} />
            <Sorted label="Size" by="size" search={search} change={change} />
            <span role="columnheader" className="right wide-only">
              Changed
            </span>
            <span role="columnheader" className="wide-only row">
              History, one step per archive <span className="grow" /> newest
            </span>
          </div>
          <Visible count={rows.length} box={box}>
            {(place) => {
              const lane = rows[place]
              return (
                lane && (
                  <Row
                    key={key(lane)}
                    place={place}
                    lane={lane}
                    facts={at(lane, step, steps).state === 'here' ? facts.get(key(lane)) : undefined}
                    archives={lanes.archives}
                    step={step}
                    selected={selected === lane}
                    chosen={chosen.has(key(lane))}
                    onChoose={() => {
                      const next = new Set(chosen)
                      if (!next.delete(key(lane))) next.add(key(lane))
                      setChosen(next)
                    }}
                    onOpen={() => open(lane)}
                    onSelect={() => change({ sel: key(lane) }, true)}
                  />
                )
              )
            }}
          </Visible>
          {rows.length === 0 && (
            <p className="muted tm-empty">
              {text === '' ? 'This folder is empty here.' : `No name in this folder has “${text}” in it.`}
            </p>
          )}
        </div>
        {versus === undefined && picked.length > 0 && (
          <div className="tm-selection card">
            <b>{picked.length} selected</b>
            <span className="muted number">
              {bytes(picked.reduce((sum, lane) => sum + (sizeAt(lane, step, steps, facts) ?? 0), 0))}
            </span>
            <Button
              acts
              small
              icon="download"
              onClick={() => saved(download(id, archive.id, picked, picked[0]?.type === '-' ? 'file' : 'folder'))}
            >
              <span className="tool-word">Download</span>
            </Button>
            <Button
              small
              kind="primary"
              icon="restore"
              disabled={refusal !== undefined}
              title={refusal}
              onClick={() => setRestoring({ lanes: picked, step })}
            >
              Restore…
            </Button>
          </div>
        )}
        <Dock archives={lanes.archives} step={step} onStep={toStep} versus={versus} onVersus={times.toVersus} />
      </main>
      {selected && (
        <Inspector
          id={id}
          lane={selected}
          lanes={lanes}
          step={shownStep}
          versus={versus === undefined ? undefined : [versus, step]}
          refusal={refusal}
          onStep={toStep}
          onRestore={() => setRestoring({ lanes: [selected], step: shownStep })}
          onClose={() => change({ sel: undefined }, true)}
        />
      )}
      {restoring && restored && (
        <RestoreSheet id={id} archive={restored} lanes={restoring.lanes} onClose={() => setRestoring(null)} />
      )}
    </div>
  )
}

/** A part of the names that are shown. The address has it when typing rests. */
function useFilter(search: Search, isOld: boolean, change: (next: Partial<Search>, replace: boolean) => void) {
  const [name, setName] = useState(search.name ?? '')
  useEffect(() => {
    if (isOld || name === (search.name ?? '')) return
    const timer = window.setTimeout(() => change({ name: name || undefined }, true), TYPED_MILLISECONDS)
    return () => window.clearTimeout(timer)
  })
  return [name, setName] as const
}

/** Of a long folder, the rows that can be seen and some beside them; between two spaces of the height of the others. */
function Visible({
  count,
  box,
  children,
}: {
  count: number
  box: RefObject<HTMLDivElement | null>
  children: (place: number) => ReactNode
}) {
  const rows = useVirtualizer({
    count,
    getScrollElement: () => box.current,
    estimateSize: () => (window.matchMedia('(max-width: 700px)').matches ? NARROW_ROW : ROW),
    overscan: 20,
    scrollMargin: HEAD,
    enabled: count > SHORT,
  })
  if (count <= SHORT) return Array.from({ length: count }, (_, place) => children(place))
  const items = rows.getVirtualItems()
  const [before, after] = [items[0]?.start ?? HEAD, items.at(-1)?.end ?? HEAD]
  return (
    <>
      <div aria-hidden="true" style={{ height: before - HEAD }} />
      {items.map((item) => children(item.index))}
      <div aria-hidden="true" style={{ height: rows.getTotalSize() - after + HEAD }} />
    </>
  )
}

/** The head of a column by which the folder can be sorted. */
function Sorted(props: {
  label: string
  by: Search['sort']
  search: Search
  change: (next: Partial<Search>, replace?: boolean) => void
}) {
  const current = props.search.sort === props.by
  const direction = props.by === 'size' ? 'descending' : 'ascending'
  return (
    <span
      role="columnheader"
      className={props.by === 'size' ? 'right' : undefined}
      aria-sort={current ? direction : undefined}
    >
      <button type="button" className="narrow" onClick={() => props.change({ sort: props.by }, true)}>
        {props.label}
        {current && <span aria-hidden="true">{direction === 'descending' ? ' ↓' : ' ↑'}</span>}
      </button>
    </span>
  )
}

/** The archive that is shown, and in a comparison the earlier one; both are in the address. */
function useTimes(
  archives: Lanes['archives'],
  search: Search,
  change: (next: Partial<Search>, replace?: boolean) => void,
) {
  const place = (archive: number | undefined) =>
    archive === undefined ? -1 : archives.findIndex((one) => one.id === archive)
  const found = place(search.at)
  const shown = found === -1 ? archives.length - 1 : found
  const other = place(search.vs)
  const step = Math.max(shown, other)
  const versus = other === -1 ? undefined : Math.min(shown, other)
  const put = (from: number | undefined, to: number) =>
    change({ at: archives[to]?.id, vs: from === undefined ? undefined : archives[from]?.id }, true)
  return {
    step,
    versus,
    toStep: (next: number) => put(versus === undefined ? undefined : Math.min(versus, next), next),
    toVersus: (next: number) => put(next, Math.max(next, step)),
    toggle: () => {
      if (versus !== undefined) put(undefined, step)
      else if (step > 0) put(changeBeside(archives, step, -1) ?? step - 1, step)
      else put(0, changeBeside(archives, 0, 1) ?? 1)
    },
  }
}

function useKeys(archives: Lanes['archives'], step: number, toStep: (step: number) => void): void {
  useEffect(() => {
    const press = (event: globalThis.KeyboardEvent) => {
      if (
        event.target instanceof HTMLElement &&
        event.target.closest('input:not([type=range]), textarea, select, dialog')
      )
        return
      const next =
        event.key === '['
          ? step - 1
          : event.key === ']'
            ? step + 1
            : event.key === '{'
              ? changeBeside(archives, step, -1)
              : event.key === '}'
                ? changeBeside(archives, step, 1)
                : null
      if (next !== null && next >= 0 && next < archives.length) toStep(next)
    }
    window.addEventListener('keydown', press)
    return () => window.removeEventListener('keydown', press)
  }, [archives, step, toStep])
}
