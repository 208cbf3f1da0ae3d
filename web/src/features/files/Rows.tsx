import { useVirtualizer } from '@tanstack/react-virtual'
import { memo, type ReactNode, type RefObject, useRef } from 'react'
import { shortDay } from '../../lib/time'
import { at, key, type Lane, type Lanes } from './model'
import { Row, type RowActs } from './Row'
import type { FactsByName } from './sizes'
import type { Change, Search } from './times'
import type { Part } from './zoom'

/** Rows up to which all are drawn; and the heights that the styles give to a row and to the head. */
const SHORT = 200
const ROW = 37
const NARROW_ROW = 48
const HEAD = 32

/** The names of a folder at one time, each with its life lane. */
export const Rows = memo(
  (props: {
    rows: Lane[]
    archives: Lanes['archives']
    step: number
    part: Part
    facts: FactsByName
    selected: Lane | undefined
    chosen: ReadonlySet<string>
    acts: RowActs
    sort: Search['sort']
    change: Change
    hidden: boolean
    /** What is said when there is no row. */
    empty: string
  }) => {
    const box = useRef<HTMLDivElement>(null)
    const { rows, archives, step, part, facts } = props
    const end = part.first + part.count
    return (
      <div
        className="tm-rows"
        hidden={props.hidden}
        role="treegrid"
        aria-label="Files"
        aria-rowcount={rows.length}
        ref={box}
      >
        <div className="tm-grid tm-head" role="row">
          <span role="columnheader">
            <span className="visually-hidden">Chosen</span>
          </span>
          <Sorted label="Name" by={undefined} sort={props.sort} change={props.change} />
          <Sorted label="Size" by="size" sort={props.sort} change={props.change} />
          <span role="columnheader" className="right wide-only">
            Changed
          </span>
          <span role="columnheader" className="wide-only row">
            History, one step per archive <span className="grow" />
            {end === archives.length ? 'newest' : `until ${shortDay(archives[end - 1]?.start ?? '')}`}
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
                  facts={at(lane, step, archives.length).state === 'here' ? facts.get(key(lane)) : undefined}
                  archives={archives}
                  step={step}
                  part={part}
                  selected={props.selected === lane}
                  chosen={props.chosen.has(key(lane))}
                  acts={props.acts}
                />
              )
            )
          }}
        </Visible>
        {rows.length === 0 && <p className="muted tm-empty">{props.empty}</p>}
      </div>
    )
  },
)

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
  const height = window.matchMedia('(max-width: 700px)').matches ? NARROW_ROW : ROW
  const rows = useVirtualizer({
    count,
    getScrollElement: () => box.current,
    estimateSize: () => height,
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
function Sorted(props: { label: string; by: Search['sort']; sort: Search['sort']; change: Change }) {
  const current = props.sort === props.by
  const direction = props.by === 'size' ? 'descending' : 'ascending'
  return (
    <span
      role="columnheader"
      className={props.by === 'size' ? 'right' : undefined}
      aria-sort={current ? direction : undefined}
    >
      <button type="button" className="narrow" onClick={() => props.change({ sort: props.by })}>
        {props.label}
        {current && <span aria-hidden="true">{direction === 'descending' ? ' ↓' : ' ↑'}</span>}
      </button>
    </span>
  )
}
