/** The steps of a run as the form shows them: days between, 0 for each run, null for never. */
export interface Chosen {
  prune: boolean
  keep: { daily: number; weekly: number; monthly: number; yearly: number }
  compact: number | null
  check: number | null
  restore_check: number | null
  mirror: number | null
}

type Step = Record<string, unknown>

export const STEPS = [
  ['compact', 'Free the space of removed archives'],
  ['check', 'Check the repository'],
  ['restore_check', 'Prove a restore'],
  ['mirror', 'Bring the mirror up to date'],
] as const

const FRESH: Chosen = {
  prune: true,
  keep: { daily: 7, weekly: 4, monthly: 6, yearly: 0 },
  compact: 0,
  check: 7,
  restore_check: 30,
  mirror: null,
}

export function chosenOf(steps: Step[] | null): Chosen {
  if (steps === null) return FRESH
  const find = (kind: string) => steps.find((step) => step.kind === kind)
  const every = (kind: string) => {
    const step = find(kind)
    return step ? (typeof step.every_days === 'number' ? step.every_days : 0) : null
  }
  const prune = find('prune')
  const kept = (name: string) => (typeof prune?.[`keep_${name}`] === 'number' ? (prune[`keep_${name}`] as number) : 0)
  return {
    prune: prune !== undefined,
    keep: prune
      ? { daily: kept('daily'), weekly: kept('weekly'), monthly: kept('monthly'), yearly: kept('yearly') }
      : FRESH.keep,
    compact: every('compact'),
    check: every('check'),
    restore_check: every('restore_check'),
    mirror: every('mirror'),
  }
}

/** The steps for the API. Unknown fields of a step, and unknown steps, stay as they were. */
export function stepsOf(chosen: Chosen, before: Step[]): Step[] {
  const old = (kind: string): Step => before.find((step) => step.kind === kind) ?? { kind }
  const { daily, weekly, monthly, yearly } = chosen.keep
  const made: Step[] = before.length === 0 || before.some((step) => step.kind === 'backup') ? [old('backup')] : []
  if (chosen.prune)
    made.push({
      ...old('prune'),
      keep_daily: daily || null,
      keep_weekly: weekly || null,
      keep_monthly: monthly || null,
      keep_yearly: yearly || null,
    })
  for (const [kind] of STEPS) {
    const every = chosen[kind]
    if (every === null) continue
    made.push(kind === 'mirror' ? old(kind) : { ...old(kind), every_days: every || null })
  }
  const known = new Set<unknown>(['backup', 'prune', ...STEPS.map(([kind]) => kind)])
  if (before.every((step) => known.has(step.kind))) return made
  const first = before.findIndex((step) => step.kind === 'backup')
  const others = (list: Step[]) => list.filter((step) => !known.has(step.kind))
  return [...others(before.slice(0, Math.max(first, 0))), ...made, ...others(before.slice(Math.max(first, 0)))]
}
