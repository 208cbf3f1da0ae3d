import type { Schemas } from '../../api/client'
import { Glyph, type GlyphName } from '../../ui/Glyph'

const VERDICT: Record<string, GlyphName> = { ok: 'ok', failed: 'bad', unknown: 'unknown', skipped: 'unknown' }
const STEP: Record<string, string> = {
  reach: 'The machine answers',
  host_key: 'It is the machine of the first time',
  key: "The account accepts the service's key",
  engine: 'BorgBackup is there',
  python: 'Python is there',
  disk: 'The disk can be read',
}

/** What a test of an ssh machine found, step by step. */
export function Steps({ test }: { test: Schemas['TestAnswer'] }) {
  return (
    <ul className="plain-list">
      {test.steps.map((one) => (
        <li key={one.step} className="evidence test-step">
          <Glyph name={VERDICT[one.verdict] ?? 'unknown'} />
          <span>
            {STEP[one.step] ?? one.step}
            {one.verdict === 'skipped' && <span className="soft"> (not looked at)</span>}
            {one.message && <span className="sub">{one.message}</span>}
          </span>
        </li>
      ))}
    </ul>
  )
}
