import { type ReactNode, useDeferredValue, useEffect, useMemo, useState } from 'react'
import { bytes, count, counted } from '../../lib/numbers'
import { refusalWord } from '../../lib/words'
import { Button } from '../../ui/Button'
import { Note, Problem } from '../../ui/States'
import { useRepository } from '../repositories/Repository'
import { Comparison } from './Comparison'
import { Dock } from './Dock'
import { download } from './download'
import { Inspector } from './Inspector'
import { at, key, type Lane, type Lanes, named, ordered } from './model'
import { RestoreSheet } from './RestoreSheet'
import type { RowActs } from './Row'
import { Rows } from './Rows'
import { bySize, type FactsByName, sizeAt, useFolderFacts } from './sizes'
import { type Change, type Search, useKeys, useTimes } from './times'
import { MOST, useWhole } from './whole'
import { useZoom } from './zoom'

/** Names from which on a folder has a filter, and how long typing rests before the address has it too. */
const MANY = 12
const TYPED_MILLISECONDS = 400

interface Props {
  id: number
  first: Lanes
  /** These are still the names of the folder before. */
  isOld: boolean
  search: Search
  change: Change
}

/** One folder: its names, what they are at the chosen time, and what can be done with them. */
export function Folder({ id, first, isOld, search, change }: Props) {
  const where = first.path_b64 ? { path_b64: first.path_b64 } : { path: first.path }
  const lanes = useWhole(id, where, isOld ? { ...first, next_cursor: null } : first)
  const times = useTimes(lanes.archives, search, change)
  const { step, versus, toStep } = times
  const steps = lanes.archives.length
  const zoom = useZoom(steps, step, versus)
  useKeys(lanes.archives, step, toStep, zoom)
  const [restoring, setRestoring] = useState<{ lanes: Lane[]; step: number } | null>(null)
  const [refused, setRefused] = useState<unknown>(null)
  const saved = (download: Promise<void>) => void download.then(() => setRefused(null), setRefused)
  const [name, setName] = useFilter(search, isOld, change)
  const [chosen, acts] = useRowActs(change)
  const archive = lanes.archives[step]
  const all = useMemo(() => ordered(lanes.entries), [lanes.entries])
  const hasFolders = useMemo(() => lanes.entries.some((lane) => lane.type === 'd'), [lanes.entries])
  const facts = useFolderFacts(id, archive?.id, lanes, hasFolders)
  // The dock and the field follow a hand at once, the rows as soon as they can.
  const shown = { step: useDeferredValue(step), part: useDeferredValue(zoom.part), text: useDeferredValue(name) }
  const rows = useRows(all, { ...shown, steps, facts, showGone: search.gone !== false, sort: search.sort })
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
  const refusedBy = useRepository(id).data?.refusals.restore
  const refusal = refusedBy === undefined ? undefined : refusalWord(refusedBy)
  if (!archive) return null
  // What a comparison shows of a removed name is the earlier archive.
  const shownStep = versus !== undefined && selected && at(selected, step, steps).state === 'absent' ? versus : step
  const restored = restoring && lanes.archives[restoring.step]
  return (
    <div className="tm-body">
      <main className="tm-left">
        <Tools
          search={search}
          change={change}
          filter={versus === undefined && (all.length > MANY || name !== '') ? name : null}
          onFilter={setName}
          compares={versus !== undefined}
          onCompare={steps < 2 ? null : times.toggle}
          onDownload={() => saved(download(id, archive.id, [{ path: lanes.path, path_b64: lanes.path_b64 }], 'folder'))}
        />
        {refused !== null && <Problem error={refused} />}
        <Missing lanes={lanes} />
        {versus !== undefined && (
          <Comparison
            id={id}
            lanes={lanes}
            from={versus}
            to={step}
            part={zoom.part}
            selected={search.sel}
            onOpen={(entry) => change(inside(entry), false)}
            onSelect={acts.select}
          />
        )}
        <Rows
          hidden={versus !== undefined}
          rows={rows}
          archives={lanes.archives}
          step={shown.step}
          part={shown.part}
          facts={facts}
          selected={selected}
          chosen={chosen}
          acts={acts}
          sort={search.sort}
          change={change}
          empty={shown.text === '' ? 'This folder is empty here.' : `No name in this folder contains “${shown.text}”.`}
        />
        {versus === undefined && picked.length > 0 && (
          <Picked picked={picked} size={picked.reduce((sum, lane) => sum + (sizeAt(lane, step, steps, facts) ?? 0), 0)}>
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
          </Picked>
        )}
        <Dock
          archives={lanes.archives}
          zoom={zoom}
          step={step}
          onStep={toStep}
          versus={versus}
          onVersus={times.toVersus}
        />
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
          onClose={() => change({ sel: undefined })}
        />
      )}
      {restoring && restored && (
        <RestoreSheet id={id} archive={restored} lanes={restoring.lanes} onClose={() => setRestoring(null)} />
      )}
    </div>
  )
}

/** The search parameters of a folder inside this one. */
const inside = (entry: { path: string; path_b64?: string | null }): Partial<Search> => ({
  path: entry.path,
  pathb64: entry.path_b64 ?? undefined,
  sel: undefined,
  name: undefined,
})

/** The names that are ticked, and what a row can do: the same acts as long as the page is the same. */
function useRowActs(change: Change): [ReadonlySet<string>, RowActs] {
  const [chosen, setChosen] = useState<ReadonlySet<string>>(new Set())
  const acts = useMemo(
    (): RowActs => ({
      choose: (lane) =>
        setChosen((old) => {
          const next = new Set(old)
          if (!next.delete(key(lane))) next.add(key(lane))
          return next
        }),
      open: (lane) => (lane.type === 'd' ? change(inside(lane), false) : change({ sel: key(lane) })),
      select: (lane) => change({ sel: key(lane) }),
    }),
    [change],
  )
  return [chosen, acts]
}

/** The names that are shown, in their order. */
function useRows(
  all: Lane[],
  wanted: {
    step: number
    steps: number
    text: string
    facts: FactsByName
    showGone: boolean
    sort: Search['sort']
  },
): Lane[] {
  const { step, steps, text, facts, showGone, sort } = wanted
  const matching = useMemo(() => named(all, text), [all, text])
  const shown = useMemo(
    () => (showGone ? matching : matching.filter((lane) => at(lane, step, steps).state === 'here')),
    [matching, showGone, step, steps],
  )
  return useMemo(() => (sort === 'size' ? bySize(shown, step, steps, facts) : shown), [sort, shown, step, steps, facts])
}

/** A part of the names that are shown. The address has it when typing rests. */
function useFilter(search: Search, isOld: boolean, change: Change) {
  const [name, setName] = useState(search.name ?? '')
  useEffect(() => {
    if (isOld || name === (search.name ?? '')) return
    const timer = window.setTimeout(() => change({ name: name || undefined }), TYPED_MILLISECONDS)
    return () => window.clearTimeout(timer)
  })
  return [name, setName] as const
}

function Tools(props: {
  search: Search
  change: Change
  /** The text of the filter; null where there is none. */
  filter: string | null
  onFilter: (text: string) => void
  compares: boolean
  /** Null with a single archive. */
  onCompare: (() => void) | null
  onDownload: () => void
}) {
  return (
    <div className="tm-tools">
      {props.filter !== null && (
        <input
          className="input tm-filter"
          type="search"
          placeholder="Filter by name"
          aria-label="Filter the names of this folder"
          value={props.filter}
          onChange={(event) => props.onFilter(event.target.value)}
        />
      )}
      {props.compares ? (
        <h2 className="choice">What differs between two times</h2>
      ) : (
        <label className="choice">
          <input
            type="checkbox"
            checked={props.search.gone !== false}
            onChange={(event) => props.change({ gone: event.target.checked ? undefined : false })}
          />
          <span>Show what exists at other times</span>
        </label>
      )}
      <span className="grow" />
      <Button
        small
        icon="compare"
        aria-pressed={props.compares}
        disabled={props.onCompare === null}
        title={props.onCompare === null ? 'There is only one archive.' : undefined}
        onClick={props.onCompare ?? undefined}
      >
        <span className="tool-word">Compare two times</span>
      </Button>
      <Button acts small icon="download" onClick={props.onDownload}>
        <span className="tool-word">Download folder</span>
      </Button>
    </div>
  )
}

/** Archives and names that are not shown here. */
function Missing({ lanes }: { lanes: Lanes }) {
  const known = `The first ${count(lanes.entries.length)} of ${count(lanes.total)} names`
  return (
    <>
      {lanes.coverage.unindexed_archive_ids.length > 0 && (
        <Note warn>
          {lanes.coverage.indexed} of {counted(lanes.coverage.total, 'archive')} are indexed; the others are not shown
          here.
        </Note>
      )}
      {lanes.next_cursor !== null && (
        <Note>
          {lanes.entries.length < MOST ? `${known}; the others are being read.` : `${known}. Search finds the others.`}
        </Note>
      )}
    </>
  )
}

function Picked({ picked, size, children }: { picked: Lane[]; size: number; children: ReactNode }) {
  return (
    <div className="tm-selection card">
      <b>{picked.length} selected</b>
      <span className="muted number">{bytes(size)}</span>
      {children}
    </div>
  )
}
