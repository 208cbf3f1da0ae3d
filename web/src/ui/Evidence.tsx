import type { Schemas } from '../api/client'
import { Age } from './Age'
import { Glyph, type GlyphName } from './Glyph'

type Cell = Schemas['EvidenceCell']

const GLYPH: Record<Cell['state'], GlyphName> = {
  ok: 'ok',
  warned: 'warn',
  overdue: 'warn',
  failed: 'bad',
  never: 'unknown',
  running: 'run',
}

/** What is known of one kind of care, and how old the evidence is. */
export function Evidence({ cell }: { cell: Cell }) {
  return (
    <span className={`evidence ${cell.state}`}>
      <Glyph name={GLYPH[cell.state]} />
      {cell.state === 'failed' && 'failed'}
      {cell.state === 'running' ? 'now' : cell.at && cell.state !== 'never' ? <Age at={cell.at} /> : wordsOf(cell)}
    </span>
  )
}

function wordsOf(cell: Cell): string {
  return cell.cell === 'mirror' ? 'no mirror' : 'never'
}
