/** How far something is. Unknown is never 0 %. */
export function Bar({ percent, label }: { percent: number | null; label: string }) {
  if (percent === null)
    return (
      <div className="bar endless" role="progressbar" aria-label={label}>
        <i />
      </div>
    )
  const part = Math.min(100, Math.max(0, percent))
  return (
    <div
      className="bar"
      role="progressbar"
      aria-label={label}
      aria-valuenow={Math.round(part)}
      aria-valuemin={0}
      aria-valuemax={100}
    >
      <i style={{ transform: `scaleX(${part / 100})` }} />
    </div>
  )
}
