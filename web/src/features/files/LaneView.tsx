import type { Lane } from './model'

/** The life of one name: a piece for each version, a cross where it vanished. */
export function LaneView({
  lane,
  archives,
  step,
  versus,
}: {
  lane: Lane
  archives: number
  step: number
  /** The other time of a comparison. */
  versus?: number
}) {
  const width = 1000
  const unit = width / Math.max(archives, 1)
  const gap = Math.min(3, unit / 4)
  const last = lane.pieces.at(-1)
  const gone = last && last.last < archives - 1 ? (last.last + 1) * unit : null
  return (
    <svg className="lane" viewBox={`0 0 ${width} 12`} preserveAspectRatio="none" aria-hidden="true">
      {lane.pieces.map((piece, index) => {
        const shown = piece.first <= step && step <= piece.last
        return (
          <rect
            key={piece.first}
            x={piece.first * unit + gap / 2}
            width={Math.max(unit * (piece.last - piece.first + 1) - gap, 1.5)}
            y={0}
            height={12}
            fill={shown ? 'var(--lane)' : index % 2 ? 'var(--lane-b)' : 'var(--lane-a)'}
          />
        )
      })}
      {gone !== null && (
        <rect x={gone + unit * 0.1} width={Math.min(unit * 0.35, 5)} y={1} height={10} fill="var(--bad)" />
      )}
      <Cursor at={(step + 0.5) * unit} />
      {versus !== undefined && <Cursor at={(versus + 0.5) * unit} dashed />}
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
