import type { Lane } from './model'
import type { Part } from './zoom'

const WIDTH = 1000

/** The life of one name: a piece for each version, a cross where it vanished. */
export function LaneView({
  lane,
  archives,
  part,
  step,
  versus,
}: {
  lane: Lane
  archives: number
  /** The archives that are shown. */
  part: Part
  step: number
  /** The other time of a comparison. */
  versus?: number
}) {
  const unit = WIDTH / Math.max(part.count, 1)
  const gap = Math.min(3, unit / 4)
  const x = (place: number) => Math.max(0, Math.min(part.count, place - part.first)) * unit
  const last = lane.pieces.at(-1)
  const gone = last && last.last < archives - 1 ? last.last + 1 : null
  return (
    <svg className="lane" viewBox={`0 0 ${WIDTH} 12`} preserveAspectRatio="none" aria-hidden="true">
      {lane.pieces.map((piece, index) => {
        const [left, right] = [x(piece.first), x(piece.last + 1)]
        if (left === right) return null
        const shown = piece.first <= step && step <= piece.last
        return (
          <rect
            key={piece.first}
            x={left + gap / 2}
            width={Math.max(right - left - gap, 1.5)}
            y={0}
            height={12}
            fill={shown ? 'var(--lane)' : index % 2 ? 'var(--lane-b)' : 'var(--lane-a)'}
          />
        )
      })}
      {gone !== null && x(gone) < x(gone + 1) && (
        <rect x={x(gone) + unit * 0.1} width={Math.min(unit * 0.35, 5)} y={1} height={10} fill="var(--bad)" />
      )}
      <Cursor at={x(step) + unit / 2} />
      {versus !== undefined && <Cursor at={x(versus) + unit / 2} dashed />}
    </svg>
  )
}

function Cursor({ at, dashed }: { at: number; dashed?: boolean }) {
  return (
    <line
      x1={at}
      x2={at}
      y1={-10}
      y2={22}
      stroke="var(--ink)"
      strokeWidth={1.5}
      strokeDasharray={dashed ? '3 3' : undefined}
      vectorEffect="non-scaling-stroke"
    />
  )
}
