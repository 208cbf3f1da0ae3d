import type { Schemas } from '../api/client'

type Verdict = Schemas['RepositoryEvidence']['verdict']
export type Counts = Partial<Record<Verdict, number>>

const ORDER: Verdict[] = ['proven', 'unknown', 'unproven', 'at_risk', 'broken']
const COLOUR: Record<Verdict, string> = {
  proven: 'var(--ok)',
  unknown: 'var(--unknown)',
  unproven: 'var(--warn-fill)',
  at_risk: 'var(--warn-fill)',
  broken: 'var(--bad)',
}
const MOST = 48

/** One segment for each repository; beyond 48, arcs. */
export function Ring({ counts, label }: { counts: Counts; label: string }) {
  const total = ORDER.reduce((sum, word) => sum + (counts[word] ?? 0), 0)
  const needs = total - (counts.proven ?? 0)
  const pieces = total > MOST ? MOST : Math.max(total, 1)
  const segments: Verdict[] = []
  for (const word of ORDER) {
    const share = total > MOST ? Math.round(((counts[word] ?? 0) / total) * MOST) : (counts[word] ?? 0)
    for (let piece = 0; piece < share && segments.length < pieces; piece += 1) segments.push(word)
  }
  const gap = pieces === 1 ? 0.001 : Math.min(0.075, Math.PI / pieces / 3)
  return (
    <svg className="ring" viewBox="0 0 56 56" role="img" aria-label={label}>
      {total === 0 && (
        <circle cx="28" cy="28" r="24" fill="none" stroke="var(--line)" strokeWidth="5" strokeDasharray="5 4" />
      )}
      {segments.map((word, index) => (
        <path
          // biome-ignore lint/suspicious/noArrayIndexKey: a segment is its place
          key={index}
          d={arc(index, pieces, gap)}
          fill="none"
          stroke={COLOUR[word]}
          strokeWidth={word === 'proven' ? 5 : 7}
          strokeDasharray={word === 'unknown' ? '3 2' : undefined}
        />
      ))}
      <text x="28" y="34" textAnchor="middle" fontSize="17" fontWeight="650" fill="var(--ink)">
        {total === 0 ? '' : needs === 0 ? '✓' : needs}
      </text>
    </svg>
  )
}

function arc(index: number, pieces: number, gap: number): string {
  const radius = 24
  const start = -Math.PI / 2 + (index * 2 * Math.PI) / pieces + gap
  const end = -Math.PI / 2 + ((index + 1) * 2 * Math.PI) / pieces - gap
  const at = (angle: number) =>
    `${(28 + radius * Math.cos(angle)).toFixed(2)} ${(28 + radius * Math.sin(angle)).toFixed(2)}`
  return `M${at(start)}A${radius} ${radius} 0 ${end - start > Math.PI ? 1 : 0} 1 ${at(end)}`
}
