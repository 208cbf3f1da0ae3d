/** A state as a shape that differs in outline, not only in colour. */
export type GlyphName = 'ok' | 'warn' | 'bad' | 'unknown' | 'run' | 'wait'

export function Glyph({ name }: { name: GlyphName }) {
  return (
    <svg className={name === 'run' ? 'glyph turning' : 'glyph'} viewBox="0 0 16 16" aria-hidden="true">
      {shapes[name]}
    </svg>
  )
}

const mark = {
  fill: 'none',
  stroke: 'var(--surface)',
  strokeWidth: 1.7,
  strokeLinecap: 'round',
  strokeLinejoin: 'round',
} as const

const shapes = {
  ok: (
    <>
      <circle cx="8" cy="8" r="7" fill="var(--ok)" />
      <path d="M4.800 8.200 7 10.400l4.200-4.600" {...mark} />
    </>
  ),
  warn: (
    <>
      <path d="M8 1.300 15.300 14H.7z" fill="var(--warn-fill)" stroke="var(--warn-fill)" strokeLinejoin="round" />
      <path d="M8 6v3.600M8 11.800v.1" {...mark} />
    </>
  ),
  bad: (
    <>
      <path d="M5 1h6l4 4v6l-4 4H5l-4-4V5z" fill="var(--bad)" />
      <path d="M5.500 5.500l5 5M10.500 5.500l-5 5" {...mark} />
    </>
  ),
  unknown: (
    <circle
      cx="8"
      cy="8"
      r="6.200"
      fill="none"
      stroke="var(--unknown)"
      strokeWidth="1.5"
      strokeDasharray="2.600 2.300"
    />
  ),
  run: (
    <>
      <circle cx="8" cy="8" r="6" fill="none" stroke="var(--h0)" strokeWidth="2.4" />
      <path d="M8 2a6 6 0 0 1 5.200 9" fill="none" stroke="var(--run)" strokeWidth="2.4" strokeLinecap="round" />
    </>
  ),
  wait: <path d="M5.500 3.500v9M10.500 3.500v9" stroke="var(--ink3)" strokeWidth="2" strokeLinecap="round" />,
}
