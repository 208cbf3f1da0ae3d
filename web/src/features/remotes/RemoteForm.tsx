import { useMutation, useQuery, useQueryClient } from '@tanstack/react-query'
import { type FormEvent, useState } from 'react'
import { api, data, type Schemas } from '../../api/client'
import { keys } from '../../api/keys'
import { Button } from '../../ui/Button'
import { Dialog } from '../../ui/Dialog'
import { Loaded, Problem } from '../../ui/States'

type Remote = Schemas['RemoteAnswer']
type Option = Schemas['ProviderOption']

/** A form made from rclone's description of the provider: common options first, the rest on demand. */
export function RemoteForm({ remote, onClose }: { remote: Remote | null; onClose: () => void }) {
  const client = useQueryClient()
  const providers = useQuery({
    queryKey: [...keys.remotes, 'providers'],
    queryFn: () => data(api.GET('/api/rclone/providers')),
    staleTime: Number.POSITIVE_INFINITY,
  })
  const [provider, setProvider] = useState(remote?.provider ?? 's3')
  const [advanced, setAdvanced] = useState(false)
  const save = useMutation({
    mutationFn: (form: FormData) => {
      const options: Record<string, string> = {}
      for (const [name, value] of form.entries()) {
        if (!name.startsWith('option.') || typeof value !== 'string') continue
        const key = name.slice('option.'.length)
        if (value !== '' || (remote && key in remote.options)) options[key] = value
      }
      const name = String(form.get('name')).trim()
      return remote
        ? data(
            api.PUT('/api/rclone/remotes/{remote_id}', {
              params: { path: { remote_id: remote.id } },
              body: { name, options } as never,
            }),
          )
        : data(api.POST('/api/rclone/remotes', { body: { name, provider, options } as never }))
    },
    onSuccess: () => {
      void client.invalidateQueries({ queryKey: keys.remotes })
      onClose()
    },
  })
  const submit = (event: FormEvent<HTMLFormElement>) => {
    event.preventDefault()
    save.mutate(new FormData(event.currentTarget))
  }
  return (
    <Dialog title={remote ? `Edit ${remote.name}` : 'Add remote'} onClose={onClose}>
      <Loaded query={providers} height={240}>
        {(found) => {
          const options = found.providers.find((one) => one.name === provider)?.options ?? []
          const shown = options.filter((one) => advanced || !one.advanced || one.required)
          return (
            <form className="stack" onSubmit={submit}>
              <label className="field">
                <span>Name</span>
                <input className="input" name="name" required defaultValue={remote?.name ?? ''} placeholder="offsite" />
              </label>
              <label className="field">
                <span>Provider</span>
                <select
                  className="input"
                  value={provider}
                  disabled={remote !== null}
                  onChange={(event) => setProvider(event.target.value)}
                >
                  {found.providers.map((one) => (
                    <option key={one.name} value={one.name}>
                      {one.name}: {one.description}
                    </option>
                  ))}
                </select>
              </label>
              {shown.map((one) => (
                <Field key={`${provider}.${one.name}`} option={one} remote={remote} />
              ))}
              {options.length > shown.length && (
                <div>
                  <Button small onClick={() => setAdvanced(true)}>
                    Show {options.length - shown.length} more options
                  </Button>
                </div>
              )}
              {save.error && <Problem error={save.error} />}
              <footer>
                <Button onClick={onClose}>Cancel</Button>
                <Button acts type="submit" kind="primary" disabled={save.isPending}>
                  {remote ? 'Save' : 'Add'}
                </Button>
              </footer>
            </form>
          )
        }}
      </Loaded>
    </Dialog>
  )
}

function Field({ option, remote }: { option: Option; remote: Remote | null }) {
  const kept = remote?.secret_options.includes(option.name)
  const help = option.help.split('\n')[0] ?? ''
  return (
    <label className="field">
      <span>
        {option.name.replaceAll('_', ' ')}
        {option.required && !kept && <span className="muted"> needed</span>}
      </span>
      <input
        className="input mono"
        name={`option.${option.name}`}
        type={option.secret ? 'password' : 'text'}
        autoComplete={option.secret ? 'new-password' : 'off'}
        required={option.required && !kept && !option.default}
        defaultValue={option.secret ? '' : (remote?.options[option.name] ?? '')}
        placeholder={kept ? 'unchanged' : option.default}
      />
      <small>{help}</small>
    </label>
  )
}
