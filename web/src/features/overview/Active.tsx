import { Link } from '@tanstack/react-router'
import type { Schemas } from '../../api/client'
import { bytes, count } from '../../lib/numbers'
import { span } from '../../lib/time'
import { kindWord, waitWord } from '../../lib/words'
import { Bar } from '../../ui/Bar'
import { Glyph } from '../../ui/Glyph'

type Active = Schemas['ActiveOperation']
const SHOWN = 6

export function ActiveOperations({ running, waiting }: { running: Active[]; waiting: Active[] }) {
  const shown = [...running, ...waiting].slice(0, SHOWN)
  return (
    <section aria-label="Right now">
      <div className="head">
        <h2>Right now</h2>
        {shown.length > 0 && (
          <span className="muted">
            {running.length} running, {waiting.length} waiting
          </span>
        )}
        <Link to="/queue" className="end">
          Queue
        </Link>
      </div>
      <div className="card">
        {shown.length === 0 && <p className="running-row muted">Nothing is running or waiting.</p>}
        {shown.map((operation) => (
          <ActiveRow key={operation.id} operation={operation} />
        ))}
      </div>
    </section>
  )
}

export function ActiveRow({ operation }: { operation: Active }) {
  const progress = facts(operation)
  return (
    <Link to="/operations/$id" params={{ id: String(operation.id) }} className="running-row">
      <span className="line">
        <Glyph name={operation.status === 'running' ? 'run' : 'wait'} />
        <b>{kindWord(operation.kind)}</b> <span className="soft">{operation.repository ?? operation.package_name}</span>
        <span className="end number">{operation.status === 'running' ? progress.left : waitWord(operation)}</span>
      </span>
      {operation.status === 'running' && (
        <>
          <Bar percent={operation.progress_percent} label={`${kindWord(operation.kind)} of ${operation.repository}`} />
          <span className="facts number">{progress.words.join(' · ')}</span>
        </>
      )}
    </Link>
  )
}

/** The known details of a running operation. */
export function facts(operation: { progress_details?: Record<string, unknown>; progress_message?: string | null }): {
  words: string[]
  left: string
} {
  const details = operation.progress_details ?? {}
  const number = (name: string) => (typeof details[name] === 'number' ? (details[name] as number) : null)
  const words: string[] = []
  const files = number('nfiles') ?? number('files_processed') ?? number('restored_files')
  const size = number('original_size') ?? number('restored_size')
  const speed = number('backup_speed') ?? number('restore_speed') ?? number('speed')
  const left = number('estimated_time_remaining') ?? number('eta_seconds')
  if (size !== null) words.push(bytes(size))
  if (files !== null) words.push(`${count(files)} files`)
  if (speed !== null && speed > 0) words.push(`${speed < 10_000 ? `${speed.toFixed(1)} MB` : bytes(speed)}/s`)
  if (words.length === 0 && operation.progress_message) words.push(operation.progress_message)
  return { words, left: left !== null && left > 0 ? `${span(left)} left` : '' }
}
