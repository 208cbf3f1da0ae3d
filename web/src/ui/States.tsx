import { Link } from '@tanstack/react-router'
import type { ReactNode } from 'react'
import { Refused } from '../api/client'
import { Button } from './Button'
import { Glyph } from './Glyph'

export function Skeleton({ height, width = '100%' }: { height: number; width?: number | string }) {
  return <div className="skeleton" style={{ height, width }} aria-hidden="true" />
}

export function Empty({ children, command }: { children: ReactNode; command?: string }) {
  return (
    <div className="card empty">
      <div>{children}</div>
      {command && (
        <p className="muted terminal">
          From a terminal: <code>{command}</code>
        </p>
      )}
    </div>
  )
}

export function Problem({ error, retry, page }: { error: unknown; retry?: () => void; page?: boolean }) {
  const refused = error instanceof Refused ? error : null
  if (refused?.status === 404)
    return (
      <Note title="Not found, or not visible to you." heading={page}>
        It may have been removed, or you may not have access. An admin can check.
        {page && (
          <>
            {' '}
            <Link to="/" className="link">
              Back to the overview
            </Link>
          </>
        )}
      </Note>
    )
  if (refused?.status === 403)
    return <Note title="You are not allowed to do this.">{refused.message} Ask an admin.</Note>
  const words = refused ? refused.message : 'The service is not responding. Nothing is lost; running work continues.'
  return (
    <div className="note bad" role="alert">
      <Glyph name="bad" />
      <div className="grow">
        <b>{words}</b>
        {/* A wrong password or code needs no search in the log. */}
        {refused?.requestId && refused.status !== 401 && <p className="mono">Request {refused.requestId}</p>}
      </div>
      {retry && (
        <Button small onClick={retry}>
          Try again
        </Button>
      )}
    </div>
  )
}

export function Note({
  title,
  children,
  warn,
  heading,
}: {
  title?: string
  children?: ReactNode
  warn?: boolean
  heading?: boolean
}) {
  return (
    <div className={warn ? 'note warn' : 'note'}>
      {warn && <Glyph name="warn" />}
      <div>
        {title && (heading ? <h1>{title}</h1> : <b>{title}</b>)}
        {children && <p>{children}</p>}
      </div>
    </div>
  )
}

/** What was loaded; until then a place of its final height; or what went wrong. */
export function Loaded<T>({
  query,
  height,
  page,
  children,
}: {
  query: { data: T | undefined; error: unknown; refetch: () => unknown }
  height: number
  page?: boolean
  children: (data: T) => ReactNode
}) {
  if (query.data !== undefined) return children(query.data)
  if (query.error) return <Problem error={query.error} retry={() => void query.refetch()} page={page} />
  return <Skeleton height={height} />
}
