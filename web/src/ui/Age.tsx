import { useEffect, useState } from 'react'
import { age, ago, exactMoment } from '../lib/time'

/** The time of day for ages, one clock for the page: it moves every ten seconds while the page is seen. */
export function useNow(): number {
  const [now, setNow] = useState(Date.now)
  useEffect(() => {
    const timer = window.setInterval(() => document.hidden || setNow(Date.now()), 10_000)
    return () => window.clearInterval(timer)
  }, [])
  return now
}

export function Age({ at, words = false }: { at: string; words?: boolean }) {
  const now = useNow()
  return (
    <time dateTime={at} title={exactMoment(at)} className="number">
      {words ? ago(at, now) : age(at, now)}
    </time>
  )
}
