import type { ReactNode } from 'react'
import { Button } from './Button'
import { Dialog } from './Dialog'
import { Problem } from './States'

/** An act that cannot be taken back: what it does, and two ways out. */
export function Confirm({
  title,
  act,
  keep = 'Cancel',
  busy,
  error,
  onAct,
  onClose,
  children,
}: {
  title: string
  act: string
  keep?: string
  busy: boolean
  error: unknown
  onAct: () => void
  onClose: () => void
  children: ReactNode
}) {
  return (
    <Dialog title={title} onClose={onClose}>
      {children}
      {Boolean(error) && <Problem error={error} />}
      <footer>
        <Button onClick={onClose}>{keep}</Button>
        <Button acts kind="danger" disabled={busy} onClick={onAct}>
          {act}
        </Button>
      </footer>
    </Dialog>
  )
}
