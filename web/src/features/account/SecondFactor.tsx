import { useMutation, useQueryClient } from '@tanstack/react-query'
import { type FormEvent, useState } from 'react'
import { encode } from 'uqr'
import { api, data } from '../../api/client'
import { keys } from '../../api/keys'
import { useMe } from '../../layout/Shell'
import { Button } from '../../ui/Button'
import { Glyph } from '../../ui/Glyph'
import { Problem } from '../../ui/States'

/** Codes of an authenticator app at each login. */
export function SecondFactor() {
  const client = useQueryClient()
  const { data: me } = useMe()
  const refresh = () => void client.invalidateQueries({ queryKey: keys.me })
  const [leaving, setLeaving] = useState(false)
  const setup = useMutation({ mutationFn: () => data(api.POST('/api/auth/totp/setup')) })
  const enable = useMutation({
    mutationFn: (code: string) => data(api.POST('/api/auth/totp/enable', { body: { code } })),
    onSuccess: () => {
      setup.reset()
      refresh()
    },
  })
  const disable = useMutation({
    mutationFn: (body: { code: string; password: string }) => data(api.POST('/api/auth/totp/disable', { body })),
    onSuccess: () => {
      setLeaving(false)
      refresh()
    },
  })
  const digits = (form: FormData) => String(form.get('code')).replaceAll(' ', '')
  const on = me?.totp_enabled === true
  return (
    <section className="card pad stack" aria-label="Second factor">
      <div className="row">
        <h2 className="grow">Second factor</h2>
        <span className={on ? 'evidence' : 'evidence never'}>
          <Glyph name={on ? 'ok' : 'unknown'} /> {on ? 'on' : 'off'}
        </span>
      </div>
      <p className="soft">Requires a code from an app on your phone at each login, in addition to the password.</p>
      {!on && !setup.data && (
        <div>
          <Button acts disabled={setup.isPending} onClick={() => setup.mutate()}>
            Set up
          </Button>
        </div>
      )}
      {!on && setup.data && (
        <div className="row second-factor">
          <Code text={setup.data.otpauth_url} />
          <form
            className="stack grow"
            onSubmit={(event: FormEvent<HTMLFormElement>) => {
              event.preventDefault()
              enable.mutate(digits(new FormData(event.currentTarget)))
            }}
          >
            <p className="soft">
              Scan it with an authenticator app, or type the secret: <code className="wrap">{setup.data.secret}</code>
            </p>
            <label className="field short">
              <span>Six-digit code from the app</span>
              <input className="input" name="code" inputMode="numeric" autoComplete="one-time-code" required />
            </label>
            {enable.error && <Problem error={enable.error} />}
            <div className="row">
              <Button acts type="submit" kind="primary" disabled={enable.isPending}>
                Turn on
              </Button>
              <Button kind="plain" onClick={() => setup.reset()}>
                Cancel
              </Button>
            </div>
          </form>
        </div>
      )}
      {on && !leaving && (
        <div>
          <Button onClick={() => setLeaving(true)}>Turn off…</Button>
        </div>
      )}
      {on && leaving && (
        <form
          className="stack"
          onSubmit={(event: FormEvent<HTMLFormElement>) => {
            event.preventDefault()
            const form = new FormData(event.currentTarget)
            disable.mutate({ code: digits(form), password: String(form.get('password')) })
          }}
        >
          <div className="row">
            <label className="field">
              <span>Your password</span>
              <input className="input" type="password" name="password" autoComplete="current-password" required />
            </label>
            <label className="field">
              <span>A code</span>
              <input className="input" name="code" inputMode="numeric" autoComplete="one-time-code" required />
            </label>
          </div>
          {disable.error && <Problem error={disable.error} />}
          <div className="row">
            <Button acts type="submit" kind="danger" disabled={disable.isPending}>
              Turn off
            </Button>
            <Button kind="plain" onClick={() => setLeaving(false)}>
              Keep it
            </Button>
          </div>
        </form>
      )}
    </section>
  )
}

/** Drawn here: the secret leaves the browser for no picture service. */
function Code({ text }: { text: string }) {
  const { data: cells, size } = encode(text, { border: 2 })
  const path = cells.flatMap((row, y) => row.flatMap((dark, x) => (dark ? [`M${x} ${y}h1v1h-1z`] : []))).join('')
  return (
    <svg
      className="qr"
      viewBox={`0 0 ${size} ${size}`}
      role="img"
      aria-label="Code to scan with an authenticator app"
      shapeRendering="crispEdges"
    >
      <rect width={size} height={size} fill="#fff" />
      <path d={path} fill="#000" />
    </svg>
  )
}
