import { useMutation, useQuery, useQueryClient } from '@tanstack/react-query'
import { type FormEvent, useState } from 'react'
import { api, data, type Schemas } from '../../api/client'
import { keys } from '../../api/keys'
import { count } from '../../lib/numbers'
import { Age } from '../../ui/Age'
import { Button } from '../../ui/Button'
import { Glyph } from '../../ui/Glyph'
import { Loaded, Problem } from '../../ui/States'

export function System() {
  const info = useQuery({ queryKey: keys.system, queryFn: () => data(api.GET('/api/system/info')) })
  return (
    <div className="stack">
      <Loaded query={info} height={120}>
        {(system) => (
          <>
            <dl className="card pad facts-list">
              <div>
                <dt>Version</dt>
                <dd>{system.version}</dd>
              </div>
              <div>
                <dt>Store</dt>
                <dd>{system.store}</dd>
              </div>
              {system.engines.map((engine) => (
                <div key={engine.path}>
                  <dt>BorgBackup {engine.major}</dt>
                  <dd>
                    {engine.version} <span className="muted mono wrap">{engine.path}</span>
                  </dd>
                </div>
              ))}
            </dl>
            {system.loops && <Loops loops={system.loops} />}
          </>
        )}
      </Loaded>
      <Limits />
    </div>
  )
}

function Loops({ loops }: { loops: Schemas['LoopFound'][] }) {
  const failing = loops.filter((one) => one.state === 'failing')
  return (
    <section className="card pad stack">
      <h2>Background work</h2>
      <p className="evidence">
        <Glyph name={failing.length ? 'bad' : 'ok'} />
        {failing.length ? `${failing.length} of ${loops.length} failing` : `All ${loops.length} running`}
      </p>
      {failing.map((one) => (
        <p key={one.name} className="soft wrap">
          <b>{one.name}</b>: {one.last_error}{' '}
          {one.last_error_at && (
            <>
              (<Age at={one.last_error_at} words />)
            </>
          )}
        </p>
      ))}
    </section>
  )
}

const LIMITS = [
  ['total', 'In all', 'max_running_total'],
  ['backup', 'Backups', 'max_running_backups'],
  ['restore', 'Restores', 'max_running_restores'],
  ['maintenance', 'Maintenance', 'max_running_maintenance'],
  ['index', 'Index', 'max_running_index'],
] as const

/** How many jobs may run side by side, beside what runs now. */
function Limits() {
  const client = useQueryClient()
  const query = useQuery({ queryKey: keys.queue, queryFn: () => data(api.GET('/api/operations/queue')) })
  const [changed, setChanged] = useState<Record<string, number>>({})
  const save = useMutation({
    mutationFn: () => data(api.PUT('/api/operations/limits', { body: changed as Schemas['LimitsChange'] })),
    onSuccess: () => {
      setChanged({})
      void client.invalidateQueries({ queryKey: keys.queue })
    },
  })
  const submit = (event: FormEvent) => {
    event.preventDefault()
    save.mutate()
  }
  return (
    <Loaded query={query} height={120}>
      {({ limits }) => {
        const all = Object.values(limits.running).reduce((sum, value) => sum + value, 0)
        return (
          <form className="card pad stack" onSubmit={submit}>
            <h2>Concurrent jobs</h2>
            <div className="row limits">
              {LIMITS.map(([group, words, name]) => (
                <label className="field narrow" key={name}>
                  <span>{words}</span>
                  <input
                    className="input number"
                    type="number"
                    min={1}
                    max={1000}
                    value={changed[name] ?? limits[name]}
                    onChange={(event) => setChanged({ ...changed, [name]: Number(event.target.value) })}
                  />
                  <small>{count(group === 'total' ? all : (limits.running[group] ?? 0))} now</small>
                </label>
              ))}
            </div>
            {save.error && <Problem error={save.error} />}
            <div>
              <Button acts type="submit" disabled={save.isPending || Object.keys(changed).length === 0}>
                Save
              </Button>
            </div>
          </form>
        )
      }}
    </Loaded>
  )
}
