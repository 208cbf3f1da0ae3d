import type { Schemas } from '../../api/client'
import { bytes, count } from '../../lib/numbers'

type Counts = Pick<Schemas['ChangeGroup'], 'added' | 'modified' | 'removed'>

/** What happened to one file. */
export const word = (one: Counts) => (one.added ? 'added' : one.removed ? 'removed' : 'changed')

export function inWords(counts: Counts): string {
  const parts = [
    counts.added ? `${count(counts.added)} added` : '',
    counts.modified ? `${count(counts.modified)} changed` : '',
    counts.removed ? `${count(counts.removed)} removed` : '',
  ]
  return parts.filter(Boolean).join(', ')
}

export function sum(groups: Counts[]): Counts {
  const all = { added: 0, modified: 0, removed: 0 }
  for (const group of groups) {
    all.added += group.added
    all.modified += group.modified
    all.removed += group.removed
  }
  return all
}

export const signed = (value: number) => `${value < 0 ? '−' : '+'}${bytes(Math.abs(value))}`
