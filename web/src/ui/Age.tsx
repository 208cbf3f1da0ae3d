import { type MouseEvent, useSyncExternalStore } from 'react'
import { age, ago, exactMoment } from '../lib/time'

const TICK = 10_000
const watchers = new Set<() => void>()
let now = Date.now()
let timer: number | undefined

function watch(watcher: () => void): () => void {
  watchers.add(watcher)
  if (timer === undefined) timer = window.setInterval(tick, TICK)
  return () => {
    watchers.delete(watcher)
    if (watchers.size > 0) return
    window.clearInterval(timer)
    timer = undefined
  }
}

function tick(): void {
  if (document.hidden) return
  now = Date.now()
  for (const watcher of watchers) watcher()
}

function read(): number {
  if (timer === undefined && Date.now() - now > TICK) now = Date.now()
  return now
}

/** The time of day for ages, one clock for the page: it moves every ten seconds while the page is seen. */
export const useNow = () => useSyncExternalStore(watch, read)

export function Age({ at, words = false }: { at: string; words?: boolean }) {
  const time = useNow()
  // Only the age that is pointed at needs its exact moment in words: a table has hundreds.
  const explain = (event: MouseEvent<HTMLElement>) => {
    event.currentTarget.title = exactMoment(at)
  }
  return (
    <time dateTime={at} onMouseEnter={explain} className="number">
      {words ? ago(at, time) : age(at, time)}
    </time>
  )
}
