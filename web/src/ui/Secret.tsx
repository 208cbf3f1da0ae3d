import { useState } from 'react'
import { Button } from './Button'

/** Something that is shown this once. */
export function Secret({ title, value }: { title: string; value: string }) {
  const [copied, setCopied] = useState(false)
  return (
    <div className="note warn secret" role="status">
      <div className="grow">
        <b>{title}</b>
        <p className="mono wrap">{value}</p>
      </div>
      {navigator.clipboard && (
        <Button small icon="copy" onClick={() => void navigator.clipboard.writeText(value).then(() => setCopied(true))}>
          {copied ? 'Copied' : 'Copy'}
        </Button>
      )}
    </div>
  )
}
