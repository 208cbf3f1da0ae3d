import type { Schemas } from '../../api/client'
import { kindWord } from '../../lib/words'

/** A script as a step of a schedule; what it does not say is the service's default. */
export interface ScriptStep {
  kind: 'script'
  script_id: number
  when?: 'before' | 'after'
  scope?: 'each' | 'once' | null
  on_failure?: 'stop' | 'warn' | null
  run_on?: 'always' | 'success' | 'warning' | 'failure' | null
  parameters?: Record<string, string | number | boolean>
  /** False: the step is new, so it keeps no secrets of another one that runs the same script. */
  has_secrets?: boolean | null
}

type Step = Record<string, unknown>

export const isScript = (step: Step): boolean => step.kind === 'script'
export const scriptStep = (script_id: number): ScriptStep => ({
  kind: 'script',
  script_id,
  when: 'before',
  has_secrets: false,
})

/** Stored values are texts. */
export const isOn = (value: string | number | boolean | undefined): boolean => value === true || value === 'true'

/** What belongs to one place alone is left out in the other. */
export function changed(step: ScriptStep, more: Partial<ScriptStep>): ScriptStep {
  const next = { ...step, ...more }
  return next.when === 'after' ? { ...next, on_failure: null } : { ...next, run_on: null }
}

/** The scripts in the steps of a schedule, before the others, between, or after them. */
export function withScripts(steps: Step[], scripts: ScriptStep[]): Step[] {
  const others = steps.filter((step) => !isScript(step))
  const backup = others.findIndex((step) => step.kind === 'backup') + 1
  const at = (when: 'before' | 'after') => scripts.filter((one) => (one.when ?? 'before') === when)
  return [...at('before'), ...others.slice(0, backup), ...at('after'), ...others.slice(backup)] as Step[]
}

/** One step in words; a script by its name, and that it runs once for all repositories. */
export function stepWord(step: Step, scripts: Pick<Schemas['ScriptAnswer'], 'id' | 'name'>[]): string {
  if (!isScript(step)) return kindWord(String(step.kind))
  const name = scripts.find((one) => one.id === step.script_id)?.name
  return `${name ? `Script ${name}` : 'Script'}${step.scope === 'once' ? ', once for all' : ''}`
}
