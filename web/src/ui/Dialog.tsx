import { type ReactNode, useEffect, useRef } from 'react'
import { useAway } from '../api/stream'
import { AWAY, Button } from './Button'

interface Props {
  title: string
  onClose: () => void
  children: ReactNode
  sheet?: boolean
}

/** The browser's own dialog: it keeps the focus inside, gives it back, and closes on Escape. */
export function Dialog({ title, onClose, children, sheet }: Props) {
  const box = useRef<HTMLDialogElement>(null)
  useEffect(() => {
    const dialog = box.current
    if (dialog && !dialog.open) dialog.showModal()
    return () => dialog?.close()
  }, [])
  return (
    <dialog ref={box} className={sheet ? 'sheet' : undefined} aria-label={title} onCancel={onClose} onClose={onClose}>
      <div>
        <div className="row">
          <h1 className="grow">{title}</h1>
          <Button kind="plain" small icon="close" aria-label="Close" onClick={onClose} />
        </div>
        <Away />
        {children}
      </div>
    </dialog>
  )
}

/** A dialog covers the page's own bar. */
function Away() {
  return (
    useAway() && (
      <p className="note warn" role="alert">
        {AWAY}
      </p>
    )
  )
}
