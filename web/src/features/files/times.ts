import { useEffect } from 'react'
import { changeBeside, type Lanes } from './model'
import type { Zoom } from './zoom'

/** The search parameters of the page. */
export interface Search {
  at?: number
  /** The earlier archive of a comparison; `at` is the later one. */
  vs?: number
  path?: string
  pathb64?: string
  sel?: string
  gone?: boolean
  top?: boolean
  sort?: 'size'
  /** A part of the names that are shown. */
  name?: string
}

/** Puts some of them into the address, in place of the entry that is there or as a new one. */
export type Change = (next: Partial<Search>, replace?: boolean) => void

/** The archive that is shown, and in a comparison the earlier one; both are in the address. */
export function useTimes(archives: Lanes['archives'], search: Search, change: Change) {
  const place = (archive: number | undefined) =>
    archive === undefined ? -1 : archives.findIndex((one) => one.id === archive)
  const found = place(search.at)
  const shown = found === -1 ? archives.length - 1 : found
  const other = place(search.vs)
  const step = Math.max(shown, other)
  const versus = other === -1 ? undefined : Math.min(shown, other)
  const put = (from: number | undefined, to: number) =>
    change({ at: archives[to]?.id, vs: from === undefined ? undefined : archives[from]?.id })
  return {
    step,
    versus,
    toStep: (next: number) => put(versus === undefined ? undefined : Math.min(versus, next), next),
    toVersus: (next: number) => put(next, Math.max(next, step)),
    toggle: () => {
      if (versus !== undefined) put(undefined, step)
      else if (step > 0) put(changeBeside(archives, step, -1) ?? step - 1, step)
      else put(0, changeBeside(archives, 0, 1) ?? 1)
    },
  }
}

/** The keys of the page: steps through time, and how much of it is shown. */
export function useKeys(archives: Lanes['archives'], step: number, toStep: (step: number) => void, zoom: Zoom): void {
  useEffect(() => {
    const steps: Record<string, () => number | null> = {
      '[': () => step - 1,
      ']': () => step + 1,
      '{': () => changeBeside(archives, step, -1),
      '}': () => changeBeside(archives, step, 1),
    }
    const press = (event: KeyboardEvent) => {
      if (event.ctrlKey || event.metaKey || event.altKey) return
      const inside = event.target instanceof HTMLElement ? event.target : null
      if (inside?.closest('input:not([type=range], [type=checkbox]), textarea, select, dialog')) return
      if (event.key === '+' || event.key === '=') zoom.closer?.()
      else if (event.key === '-') zoom.back?.()
      const next = steps[event.key]?.() ?? -1
      if (next >= 0 && next < archives.length) toStep(next)
    }
    window.addEventListener('keydown', press)
    return () => window.removeEventListener('keydown', press)
  }, [archives, step, toStep, zoom])
}
