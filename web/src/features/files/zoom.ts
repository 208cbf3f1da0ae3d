import { useState } from 'react'

/** Archives that dock and lanes show side by side; of more than that they show a part. */
export const WHOLE = 200
const FEWEST = 25

/** Archives that dock and lanes show: how many, from which one on. */
export interface Part {
  first: number
  count: number
}

/** The newest archives. */
export function newest(total: number): Part {
  const count = Math.min(total, WHOLE)
  return { first: total - count, count }
}

/** The same part if it holds both steps; else one as wide around them, or as wide as they are apart. */
export function holding(part: Part, total: number, low: number, high: number): Part {
  const isValid = part.first + part.count <= total
  if (isValid && part.first <= low && high < part.first + part.count) return part
  const count = Math.min(total, Math.max(part.count, high - low + 1))
  return placed(Math.round((low + high + 1 - count) / 2), count, total)
}

/** Half or twice as many archives; the step keeps its place on the screen where that is possible. */
export function zoomed(part: Part, total: number, step: number, direction: 'in' | 'out'): Part {
  const wide = direction === 'in' ? Math.round(part.count / 2) : part.count * 2
  const count = Math.min(total, Math.max(FEWEST, wide))
  const place = (step + 0.5 - part.first) / part.count
  return placed(Math.round(step + 0.5 - place * count), count, total)
}

const placed = (first: number, count: number, total: number): Part => ({
  first: Math.max(0, Math.min(first, total - count)),
  count,
})

export interface Zoom {
  part: Part
  /** How far one can go closer or back; null if no further. */
  closer: (() => void) | null
  back: (() => void) | null
}

/** The part of all archives that is shown. It moves only when a step leaves it. */
export function useZoom(total: number, step: number, versus: number | undefined): Zoom {
  const [kept, setKept] = useState(() => newest(total))
  const part = holding(kept, total, versus ?? step, step)
  if (part !== kept) setKept(part)
  const many = total > WHOLE
  return {
    part,
    closer: many && part.count > FEWEST ? () => setKept(zoomed(part, total, step, 'in')) : null,
    back: many && part.count < total ? () => setKept(zoomed(part, total, step, 'out')) : null,
  }
}
