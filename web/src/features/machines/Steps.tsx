import type { Schemas } from '../../api/client'
import { Glyph, type GlyphName } from '../../ui/Glyph'

const VERDICT: Record<string, GlyphName> = { ok: 'ok', failed: 'bad', unknown: 'unknown', skipped: 'unknown' }
const STEP: Record<string, string> = {
  reach: 'The machine responds',
  host_key: 'Its host key is unchanged',
  key: "The account accepts the service's key",
  engine: 'BorgBackup is installed',
  python: 'Python is installed',
  disk: 'Its free space can be read',
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
            {one.verdict === 'skipped' && <span className="soft"> (not checked)</span>}
            {one.message && <span className="sub">{one.message}</span>}
          </span>
        </li>
      ))}
    </ul>
  )
}
