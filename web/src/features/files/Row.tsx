import { type KeyboardEvent, memo } from 'react'
import { bytes, counted } from '../../lib/numbers'
import { shortDay } from '../../lib/time'
import { Icon } from '../../ui/Icon'
import { LaneView } from './LaneView'
import { at, type Lane, type Lanes } from './model'
import type { FolderFacts } from './sizes'
import type { Part } from './zoom'

/** What can be done with a row. The same object for all rows of a folder, so that rows are drawn only when they change. */
export interface RowActs {
  choose: (lane: Lane) => void
  open: (lane: Lane) => void
  select: (lane: Lane) => void
}

interface Props {
  lane: Lane
  /** Of all rows of the folder. */
  place: number
  facts?: FolderFacts
  archives: Lanes['archives']
  step: number
  part: Part
  selected: boolean
  chosen: boolean
  acts: RowActs
}

export const Row = memo((props: Props) => {
  const { lane, archives, step, acts } = props
  const here = at(lane, step, archives.length)
  const ghost = here.state === 'absent'
  const piece = here.state === 'here' ? here.piece : (here.last ?? here.next)
  const size = props.facts?.bytes ?? piece?.size ?? undefined
  const keys = (event: KeyboardEvent) => {
    if (event.key === 'Enter') acts.open(lane)
    else if (event.key === ' ') {
      event.preventDefault()
      acts.select(lane)
    } else if (event.key === 'x') acts.choose(lane)
    else if (event.key === 'ArrowDown' || event.key === 'j') focusBeside(event, 1)
    else if (event.key === 'ArrowUp' || event.key === 'k') focusBeside(event, -1)
  }
  return (
    <div
      className={`tm-grid tm-row${props.selected ? ' selected' : ''}${ghost ? ' ghost' : ''}`}
      role="row"
      aria-rowindex={props.place + 1}
      tabIndex={0}
      aria-selected={props.selected}
      onClick={() => acts.select(lane)}
      onDoubleClick={() => acts.open(lane)}
      onKeyDown={keys}
    >
      <span role="gridcell">
        <input
          type="checkbox"
          aria-label={`Select ${lane.name}`}
          checked={props.chosen}
          disabled={ghost}
          onChange={() => acts.choose(lane)}
          onClick={(event) => event.stopPropagation()}
        />
      </span>
      <span role="gridcell" className="tm-name">
        <Icon name={lane.type === 'd' ? 'folder' : 'file'} />
        {lane.type === 'd' && !ghost ? (
          <button
            type="button"
            className="tm-open"
            tabIndex={-1}
            onClick={(event) => {
              event.stopPropagation()
              acts.open(lane)
            }}
          >
            {lane.name}
          </button>
        ) : (
          <span>{lane.name}</span>
        )}
        {props.facts?.items !== undefined && (
          <span className="muted number tm-items">{counted(props.facts.items, 'item')}</span>
        )}
        <Tag lane={lane} step={step} archives={archives} />
      </span>
      <span role="gridcell" className="right number soft">
        {size === undefined ? '' : bytes(size)}
      </span>
      <span role="gridcell" className="right number soft wide-only">
        {piece?.mtime ? shortDay(piece.mtime) : ''}
      </span>
      <span role="gridcell" className="wide-only">
        <LaneView lane={lane} archives={archives.length} part={props.part} step={step} />
        <span className="visually-hidden">{counted(lane.pieces.length, 'version')}</span>
      </span>
    </div>
  )
})

function Tag({ lane, step, archives }: { lane: Lane; step: number; archives: Lanes['archives'] }) {
  const here = at(lane, step, archives.length)
  if (here.state === 'absent') {
    const last = here.last ? archives[here.last.last] : null
    const next = here.next ? archives[here.next.first] : null
    return (
      <span className="tag ghost">
        {last ? `not here, last on ${shortDay(last.start)}` : next ? `comes on ${shortDay(next.start)}` : 'not here'}
      </span>
    )
  }
  const gone = here.goneAt === null ? null : archives[here.goneAt]
  if (gone) return <span className="tag bad">gone since {shortDay(gone.start)}</span>
  return here.changed ? <span className="tag">changed here</span> : null
}

export function focusBeside(event: KeyboardEvent, direction: 1 | -1): void {
  event.preventDefault()
  const row = event.currentTarget as HTMLElement
  const beside = direction === 1 ? row.nextElementSibling : row.previousElementSibling
  if (beside instanceof HTMLElement && beside.tabIndex === 0) beside.focus()
}
