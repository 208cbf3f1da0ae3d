import { useNavigate, useParams } from '@tanstack/react-router'
import { type ReactNode, useEffect, useState } from 'react'
import { useMe } from '../../layout/Shell'
import { Button } from '../../ui/Button'
import { Note } from '../../ui/States'
import { begun, type Draft, remember } from './draft'
import { FirstBackup } from './FirstBackup'
import { KeyStep } from './KeyStep'
import { What } from './What'
import { Where } from './Where'

export interface Step {
  draft: Draft
  change: (part: Partial<Draft>) => void
  go: (step: string) => void
}

const STEPS = [
  ['what', 'What'],
  ['where', 'Where'],
  ['key', 'Key'],
  ['backup', 'First backup'],
] as const

/** From an empty service to a backup that is proven, without reading anything first. */
export function Welcome() {
  const { step = 'what' } = useParams({ strict: false }) as { step?: string }
  const navigate = useNavigate()
  const { data: me } = useMe()
  const [draft, setDraft] = useState(begun)
  useEffect(() => remember(draft), [draft])
  useAsking(draft.repository !== null && !draft.kept && draft.key !== null)
  if (me && me.role !== 'admin')
    return (
      <main>
        <Note title="Only an admin can set up backups.">You will see the repositories shared with you.</Note>
      </main>
    )
  const at = Math.max(
    0,
    STEPS.findIndex(([name]) => name === step),
  )
  const props: Step = {
    draft,
    change: (part) => setDraft((old) => ({ ...old, ...part })),
    go: (next) => void navigate({ to: '/welcome/{-$step}', params: { step: next } }),
  }
  return (
    <main className="welcome">
      <ol className="welcome-steps" aria-label="Steps">
        {STEPS.map(([name, words], index) => (
          <li key={name} aria-current={index === at ? 'step' : undefined} className={index < at ? 'done' : undefined}>
            <span className="number">{index < at ? '✓' : index + 1}</span>
            {words}
          </li>
        ))}
      </ol>
      {step === 'where' ? (
        <Where {...props} />
      ) : step === 'key' ? (
        <KeyStep {...props} />
      ) : step === 'backup' ? (
        <FirstBackup {...props} />
      ) : (
        <What {...props} />
      )}
    </main>
  )
}

/** A title, its content, and the next step. */
export function Panel({
  title,
  lead,
  children,
  back,
  next,
}: {
  title: string
  lead: ReactNode
  children: ReactNode
  back?: () => void
  next?: ReactNode
}) {
  return (
    <>
      <h1>{title}</h1>
      <p className="soft welcome-lead">{lead}</p>
      {children}
      <div className="row welcome-ways">
        {back && <Button onClick={back}>Back</Button>}
        <span className="grow" />
        {next}
      </div>
    </>
  )
}

/** The browser warns before it discards a passphrase that is not saved yet. */
function useAsking(needed: boolean): void {
  useEffect(() => {
    if (!needed) return
    const ask = (event: BeforeUnloadEvent) => event.preventDefault()
    window.addEventListener('beforeunload', ask)
    return () => window.removeEventListener('beforeunload', ask)
  }, [needed])
}
