import { moment } from '../../lib/time'
import { Age } from '../../ui/Age'
import { Button } from '../../ui/Button'
import type { Lanes } from './model'
import { changeBeside } from './model'

/** Where in time one is looking: one step for each archive. */
export function Dock({
  archives,
  step,
  onStep,
  versus,
  onVersus,
}: {
  archives: Lanes['archives']
  step: number
  onStep: (step: number) => void
  /** The earlier archive of a comparison. */
  versus?: number
  onVersus: (step: number) => void
}) {
  const shown = archives[step]
  const earlier = changeBeside(archives, step, -1)
  const later = changeBeside(archives, step, 1)
  if (!shown) return null
  const compared = versus === undefined ? undefined : archives[versus]
  return (
    <section className="dock tm-grid" aria-label="Time">
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
          <Button
            small
            kind="plain"
            disabled={step === archives.length - 1}
            onClick={() => onStep(archives.length - 1)}
          >
            Newest
          </Button>
        </div>
      </div>
      <div className="dock-chart">
        <Bars archives={archives} step={step} versus={versus} />
        {versus !== undefined && <Slider archives={archives} label="Earlier" step={versus} onStep={onVersus} shown />}
        <Slider
          archives={archives}
          label={versus === undefined ? 'Archive' : 'Later'}
          step={step}
          onStep={onStep}
          shown={versus !== undefined}
        />
        <Months archives={archives} />
      </div>
    </section>
  )
}

function Slider({
  archives,
  label,
  step,
  onStep,
  shown,
}: {
  archives: Lanes['archives']
  label: string
  step: number
  onStep: (step: number) => void
  /** Whether the label is more than a name for screen readers. */
  shown: boolean
}) {
  const archive = archives[step]
  return (
    <label className="dock-slider">
      <span className={shown ? 'muted' : 'visually-hidden'}>{label}</span>
      <input
        type="range"
        min={0}
        max={archives.length - 1}
        value={step}
        aria-valuetext={`${archive ? moment(archive.start) : ''}, archive ${step + 1} of ${archives.length}`}
        onChange={(event) => onStep(Number(event.target.value))}
      />
    </label>
  )
}

function Bars({ archives, step, versus }: { archives: Lanes['archives']; step: number; versus?: number }) {
  const unit = 1000 / archives.length
  const largest = Math.max(...archives.map((one) => one.deduplicated_size ?? 0), 1)
  return (
    <svg viewBox="0 0 1000 60" preserveAspectRatio="none" aria-hidden="true">
      {archives.map((one, place) => {
        const height = 4 + 50 * Math.sqrt((one.deduplicated_size ?? 0) / largest)
        return (
          <rect
            key={one.id}
            x={place * unit + unit * 0.15}
            width={unit * 0.7}
            y={58 - height}
            height={height}
            fill={place === step || place === versus ? 'var(--ink)' : one.changed_here ? 'var(--h3)' : 'var(--h1)'}
          />
        )
      })}
    </svg>
  )
}

const month = new Intl.DateTimeFormat('en-GB', { month: 'short' })
const day = new Intl.DateTimeFormat('en-GB', { day: 'numeric', month: 'short' })

function Months({ archives }: { archives: Lanes['archives'] }) {
  const first = archives[0]
  const last = archives.at(-1)
  if (!first || !last) return null
  const long = Date.parse(last.start) - Date.parse(first.start) > 60 * 86_400_000
  const marks: { place: number; word: string }[] = []
  archives.forEach((one, place) => {
    const word = (long ? month : day).format(new Date(one.start))
    const previous = marks.at(-1)
    if ((!previous || previous.word !== word) && (!previous || (place - previous.place) / archives.length > 0.07))
      marks.push({ place, word })
  })
  return (
    <div className="months" aria-hidden="true">
      {marks.map((mark) => (
        <span key={mark.place} style={{ left: `${(mark.place / archives.length) * 100}%` }}>
          {mark.word}
        </span>
      ))}
    </div>
  )
}
