import { useQuery } from '@tanstack/react-query'
import { Fragment } from 'react'
import { api, data, type Schemas } from '../../api/client'
import { keys } from '../../api/keys'
import { Button } from '../../ui/Button'
import { changed, isOn, type ScriptStep, scriptStep } from './scripts'

type Script = Schemas['ScriptAnswer']

export const useScripts = () => useQuery({ queryKey: keys.scripts, queryFn: () => data(api.GET('/api/scripts/')) })

/** The scripts of a schedule, in their order: before or after the backup, for each repository or once for all. */
export function ScriptSteps({ steps, onChange }: { steps: ScriptStep[]; onChange: (next: ScriptStep[]) => void }) {
  const library = useScripts().data?.scripts ?? []
  if (library.length === 0 && steps.length === 0) return null
  const put = (index: number, next: ScriptStep) => onChange(steps.map((one, at) => (at === index ? next : one)))
  return (
    <fieldset className="plain scripts">
      <legend>Scripts</legend>
      {steps.map((step, index) => (
        <Step
          // biome-ignore lint/suspicious/noArrayIndexKey: a script may be there several times; only its place differs
          key={`${step.script_id} ${index}`}
          step={step}
          script={library.find((one) => one.id === step.script_id)}
          onChange={(next) => put(index, next)}
          onRemove={() => onChange(steps.filter((_, at) => at !== index))}
        />
      ))}
      {library.length > 0 && (
        <select
          className="input auto"
          aria-label="Add a script"
          value=""
          onChange={(event) => onChange([...steps, scriptStep(Number(event.target.value))])}
        >
          <option value="" disabled>
            Add a script…
          </option>
          {library.map((one) => (
            <option key={one.id} value={one.id}>
              {one.name}
            </option>
          ))}
        </select>
      )}
    </fieldset>
  )
}

function Step({
  step,
  script,
  onChange,
  onRemove,
}: {
  step: ScriptStep
  script: Script | undefined
  onChange: (next: ScriptStep) => void
  onRemove: () => void
}) {
  const name = script?.name ?? `script ${step.script_id}`
  const elsewhere = script !== undefined && script.where !== 'service'
  return (
    <div className="script-step">
      <b className="clip" title={script?.description ?? undefined}>
        {name}
      </b>
      <Button small kind="plain" icon="close" aria-label={`Remove ${name}`} onClick={onRemove} />
      <Choice
        label={`When ${name} runs`}
        value={step.when ?? 'before'}
        options={{ before: 'before the backup', after: 'after the backup' }}
        onChange={(when) => onChange(changed(step, { when: when as ScriptStep['when'] }))}
      />
      <Choice
        label={`How often ${name} runs`}
        value={step.scope ?? 'each'}
        options={{ each: 'for each repository', once: 'once for all of them' }}
        refused={elsewhere ? 'once' : undefined}
        onChange={(scope) => onChange(changed(step, { scope: scope as ScriptStep['scope'] }))}
      />
      {step.when === 'after' ? (
        <Choice
          label={`After which results ${name} runs`}
          value={step.run_on ?? 'always'}
          options={{
            always: 'however it ended',
            success: 'if it succeeded',
            warning: 'if it had warnings',
            failure: 'if it failed',
          }}
          onChange={(run_on) => onChange(changed(step, { run_on: run_on as ScriptStep['run_on'] }))}
        />
      ) : (
        <Choice
          label={`What happens if ${name} fails`}
          value={step.on_failure ?? 'stop'}
          options={{ stop: 'no backup if it fails', warn: 'a backup even if it fails' }}
          onChange={(on_failure) => onChange(changed(step, { on_failure: on_failure as ScriptStep['on_failure'] }))}
        />
      )}
      {(script?.parameters ?? []).map((one) => (
        <Fragment key={one.name}>
          <Parameter of={one} step={step} script={name} onChange={onChange} />
        </Fragment>
      ))}
      {elsewhere && (
        <small className="muted whole">
          It runs on the repository's machine. Only scripts that run on the service can run once for all repositories.
        </small>
      )}
    </div>
  )
}

function Choice({
  label,
  value,
  options,
  refused,
  onChange,
}: {
  label: string
  value: string
  options: Record<string, string>
  refused?: string
  onChange: (value: string) => void
}) {
  return (
    <select className="input auto" aria-label={label} value={value} onChange={(event) => onChange(event.target.value)}>
      {Object.entries(options).map(([name, words]) => (
        <option key={name} value={name} disabled={name === refused && value !== refused}>
          {words}
        </option>
      ))}
    </select>
  )
}

function Parameter({
  of,
  step,
  script,
  onChange,
}: {
  of: Schemas['Parameter']
  step: ScriptStep
  script: string
  onChange: (next: ScriptStep) => void
}) {
  const value = step.parameters?.[of.name]
  const set = (next: string | number | boolean | undefined) => {
    const { [of.name]: _, ...others } = step.parameters ?? {}
    onChange({ ...step, parameters: next === undefined ? others : { ...others, [of.name]: next } })
  }
  if (of.type === 'boolean')
    return (
      <label className="choice whole">
        <input type="checkbox" checked={isOn(value)} onChange={(event) => set(event.target.checked)} />
        <span>{of.name}</span>
      </label>
    )
  return (
    <label className="field whole">
      <span>{of.name}</span>
      <input
        className="input"
        aria-label={`${of.name} of ${script}`}
        type={of.secret ? 'password' : of.type === 'integer' ? 'number' : 'text'}
        autoComplete="off"
        placeholder={of.secret && step.has_secrets ? 'unchanged' : ''}
        required={of.required && !(of.secret && step.has_secrets)}
        value={value === undefined ? '' : String(value)}
        onChange={(event) =>
          set(
            event.target.value === ''
              ? undefined
              : of.type === 'integer'
                ? Number(event.target.value)
                : event.target.value,
          )
        }
      />
    </label>
  )
}
