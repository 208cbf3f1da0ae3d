import { type KeyboardEvent, memo } from 'react'
import { moment } from '../../lib/time'
import { Age } from '../../ui/Age'
import { Button } from '../../ui/Button'
import type { Lanes } from './model'
import { changeBeside } from './model'
import { type Part, WHOLE, type Zoom } from './zoom'

type Archives = Lanes['archives']

interface Props {
  archives: Archives
  zoom: Zoom
  step: number
  onStep: (step: number) => void
  /** The earlier archive of a comparison. */
  versus?: number
  onVersus: (step: number) => void
}

/** Where in time one is looking: one step for each archive. */
export function Dock({ archives, zoom, step, onStep, versus, onVersus }: Props) {
  return (
    <section className="dock tm-grid" aria-label="Time">
      <Moment archives={archives} step={step} onStep={onStep} versus={versus} />
      <div className="dock-chart">
        <svg className="dock-bars" viewBox="0 0 1000 60" preserveAspectRatio="none" aria-hidden="true">
          <Bars archives={archives} part={zoom.part} />
          <Bar archives={archives} part={zoom.part} place={step} />
          {versus !== undefined && <Bar archives={archives} part={zoom.part} place={versus} />}
        </svg>
        {versus !== undefined && (
          <Slider archives={archives} part={zoom.part} label="Earlier" step={versus} onStep={onVersus} shown />
        )}
        <Slider
          archives={archives}
          part={zoom.part}
          label={versus === undefined ? 'Archive' : 'Later'}
          step={step}
          onStep={onStep}
          shown={versus !== undefined}
        />
        <Months archives={archives} part={zoom.part} />
        {archives.length > WHOLE && <Whole archives={archives} zoom={zoom} step={step} onStep={onStep} />}
      </div>
    </section>
  )
}

function Moment({ archives, step, onStep, versus }: Pick<Props, 'archives' | 'step' | 'onStep' | 'versus'>) {
  const earlier = changeBeside(archives, step, -1)
  const later = changeBeside(archives, step, 1)
  const shown = archives[step]
  if (!shown) return null
  const compared = versus === undefined ? undefined : archives[versus]
  return (
    <div className="dock-date">
      {compared ? (
        <>
          <span className="muted">You are comparing</span>
          <h1 aria-live="polite">
            {moment(compared.start)} <span className="rest">and</span> {moment(shown.start)}
          </h1>
          <p className="soft">
            Archives {(versus ?? 0) + 1} and {step + 1} of {archives.length}
          </p>
        </>
      ) : (
        <>
          <span className="muted">You are looking at</span>
          <h1 aria-live="polite">{moment(shown.start)}</h1>
          <p className="soft">
            <Age at={shown.start} words />, archive {step + 1} of {archives.length}
          </p>
        </>
      )}
      <div className="row">
        <Button small icon="left" disabled={earlier === null} onClick={() => earlier !== null && onStep(earlier)}>
          Earlier change
        </Button>
        <Button small disabled={later === null} onClick={() => later !== null && onStep(later)}>
          Later change
        </Button>
        <Button small kind="plain" disabled={step === archives.length - 1} onClick={() => onStep(archives.length - 1)}>
          Newest
        </Button>
      </div>
    </div>
  )
}

const LEAP = 10

function Slider(props: {
  archives: Archives
  part: Part
  label: string
  step: number
  onStep: (step: number) => void
  /** Whether the label is more than a name for screen readers. */
  shown: boolean
}) {
  const { archives, part, step, onStep } = props
  const last = archives.length - 1
  // A pointer reaches the part that is shown, a key any archive.
  const keys = (event: KeyboardEvent) => {
    if (event.ctrlKey || event.metaKey || event.altKey) return
    const next: Record<string, number> = {
      ArrowLeft: step - 1,
      ArrowDown: step - 1,
      ArrowRight: step + 1,
      ArrowUp: step + 1,
      PageDown: step - LEAP,
      PageUp: step + LEAP,
      Home: 0,
      End: last,
    }
    const wanted = next[event.key]
    if (wanted === undefined) return
    event.preventDefault()
    onStep(Math.max(0, Math.min(last, wanted)))
  }
  return (
    <label className="dock-slider">
      <span className={props.shown ? 'muted' : 'visually-hidden'}>{props.label}</span>
      <input
        type="range"
        min={part.first}
        max={part.first + part.count - 1}
        value={step}
        aria-valuetext={wordsOf(archives, step)}
        onChange={(event) => onStep(Number(event.target.value))}
        onKeyDown={keys}
      />
    </label>
  )
}

const wordsOf = (archives: Archives, step: number) =>
  `${archives[step] ? moment(archives[step].start) : ''}, archive ${step + 1} of ${archives.length}`

/** All archives, and which part of them is shown above. */
function Whole({ archives, zoom, step, onStep }: Pick<Props, 'archives' | 'zoom' | 'step' | 'onStep'>) {
  const total = archives.length
  const percent = (steps: number) => `${(steps / total) * 100}%`
  return (
    <div className="dock-whole">
      <label>
        <span className="visually-hidden">Whole time</span>
        <span className="dock-frame" style={{ left: percent(zoom.part.first), width: percent(zoom.part.count) }} />
        <svg viewBox="0 0 1000 60" preserveAspectRatio="none" aria-hidden="true">
          <Bars archives={archives} part={{ first: 0, count: total }} />
        </svg>
        <span className="dock-mark" style={{ left: percent(step + 0.5) }} />
        <input
          type="range"
          min={0}
          max={total - 1}
          value={step}
          aria-valuetext={wordsOf(archives, step)}
          onChange={(event) => onStep(Number(event.target.value))}
        />
      </label>
      <Button
        small
        kind="plain"
        icon="minus"
        aria-label="Show more archives at once"
        title="Show more archives at once (−)"
        disabled={zoom.back === null}
        onClick={zoom.back ?? undefined}
      />
      <Button
        small
        kind="plain"
        icon="plus"
        aria-label="Show fewer archives at once"
        title="Show fewer archives at once (+)"
        disabled={zoom.closer === null}
        onClick={zoom.closer ?? undefined}
      />
    </div>
  )
}

/** A bar for each archive, as high as it is large, with its own shade where this folder changed. */
const Bars = memo(
  ({ archives, part }: { archives: Archives; part: Part }) => {
    const paths = { changed: '', same: '' }
    const heightOf = heights(archives)
    for (let place = part.first; place < part.first + part.count; place += 1) {
      const archive = archives[place]
      if (archive) paths[archive.changed_here ? 'changed' : 'same'] += barAt(place, heightOf(place), part)
    }
    return (
      <>
        <path d={paths.same} fill="var(--h1)" />
        <path d={paths.changed} fill="var(--h3)" />
      </>
    )
  },
  (old, now) => old.archives === now.archives && old.part.first === now.part.first && old.part.count === now.part.count,
)

function Bar({ archives, part, place }: { archives: Archives; part: Part; place: number }) {
  return <path d={barAt(place, heights(archives)(place), part)} fill="var(--ink)" />
}

const LOWEST = 58

function heights(archives: Archives): (place: number) => number {
  const largest = Math.max(...archives.map((one) => one.deduplicated_size ?? 0), 1)
  return (place) => 4 + 50 * Math.sqrt((archives[place]?.deduplicated_size ?? 0) / largest)
}

function barAt(place: number, height: number, part: Part): string {
  const unit = 1000 / part.count
  const [left, width] = [(place - part.first) * unit + unit * 0.15, unit * 0.7]
  return `M${left.toFixed(2)} ${LOWEST}v${-height.toFixed(2)}h${width.toFixed(2)}V${LOWEST}z`
}

const month = new Intl.DateTimeFormat('en-GB', { month: 'short' })
const day = new Intl.DateTimeFormat('en-GB', { day: 'numeric', month: 'short' })
const SIXTY_DAYS = 60 * 86_400_000
/** The room that a label needs, as a part of the width. */
const MONTH_ROOM = 0.07
const DAY_ROOM = 0.18

function Months({ archives, part }: { archives: Archives; part: Part }) {
  const shown = archives.slice(part.first, part.first + part.count)
  const first = shown[0]
  const last = shown.at(-1)
  if (!first || !last) return null
  const isLong = Date.parse(last.start) - Date.parse(first.start) > SIXTY_DAYS
  const [words, room] = isLong ? [month, MONTH_ROOM] : [day, DAY_ROOM]
  const marks: { place: number; word: string }[] = []
  shown.forEach((one, place) => {
    const word = words.format(new Date(one.start))
    const previous = marks.at(-1)
    const fits = !previous || (place - previous.place > room * shown.length && place <= (1 - room) * shown.length)
    if (fits && previous?.word !== word) marks.push({ place, word })
  })
  return (
    <div className="months" aria-hidden="true">
      {marks.map((mark) => (
        <span key={mark.place} style={{ left: `${(mark.place / shown.length) * 100}%` }}>
          {mark.word}
        </span>
      ))}
    </div>
  )
}
