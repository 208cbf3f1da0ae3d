import { useInfiniteQuery, useMutation } from '@tanstack/react-query'
import { useNavigate, useSearch } from '@tanstack/react-router'
import { Fragment } from 'react'
import { api, data, type Schemas } from '../../api/client'
import { save } from '../../api/downloads'
import { keys } from '../../api/keys'
import { useChoose } from '../../lib/address'
import { clockTime, exactMoment, shortDay } from '../../lib/time'
import { Button } from '../../ui/Button'
import { Empty, Loaded, Problem } from '../../ui/States'
import { type AuditSearch, asQuery } from './auditFilter'

/** Who did what, newest first. */
export function Audit() {
  const search = useSearch({ strict: false }) as AuditSearch
  const navigate = useNavigate()
  const filter = asQuery(search)
  const query = useInfiniteQuery({
    queryKey: [...keys.audit, filter],
    queryFn: ({ pageParam }) =>
      data(api.GET('/api/audit', { params: { query: { ...filter, limit: 50, cursor: pageParam } } })),
    initialPageParam: undefined as string | undefined,
    getNextPageParam: (page) => page.next_cursor ?? undefined,
    placeholderData: (old) => old,
  })
  const show = (next: AuditSearch) => void navigate({ to: '/settings/audit', search: next, replace: true })
  const narrow = useChoose<AuditSearch>()
  return (
    <>
      <Filters key={JSON.stringify(search)} search={search} onChange={show} />
      <Loaded query={query} height={300}>
        {(pages) => {
          const entries = pages.pages.flatMap((page) => page.entries)
          if (entries.length === 0)
            return (
              <Empty>
                Nothing matches.{' '}
                <button type="button" className="link" onClick={() => show({})}>
                  Show everything
                </button>
              </Empty>
            )
          return (
            <>
              <Entries entries={entries} onNarrow={narrow} />
              {query.hasNextPage && (
                <p className="more">
                  <Button disabled={query.isFetchingNextPage} onClick={() => void query.fetchNextPage()}>
                    Show older
                  </Button>
                </p>
              )}
            </>
          )
        }}
      </Loaded>
    </>
  )
}

const FIELDS = ['actor', 'action', 'object', 'outcome', 'from', 'to'] as const

/** Filters apply when a field is left or Enter is pressed: the service compares whole words. */
function Filters({ search, onChange }: { search: AuditSearch; onChange: (next: AuditSearch) => void }) {
  const apply = (form: HTMLFormElement) => {
    const values = new FormData(form)
    const words = FIELDS.map((name) => [name, String(values.get(name) ?? '').trim() || undefined])
    onChange(Object.fromEntries(words))
  }
  const field = (name: 'actor' | 'action' | 'object', label: string, example: string) => (
    <input
      className="input"
      name={name}
      aria-label={label}
      placeholder={`${label}: ${example}`}
      defaultValue={search[name]}
      onBlur={(event) =>
        event.target.value.trim() !== (search[name] ?? '') && apply(event.target.form as HTMLFormElement)
      }
    />
  )
  const day = (name: 'from' | 'to', label: string) => (
    <label className="row day-field">
      <span className="muted">{label}</span>
      <input
        className="input"
        type="date"
        name={name}
        defaultValue={search[name]}
        onChange={(event) => apply(event.target.form as HTMLFormElement)}
      />
    </label>
  )
  return (
    <form
      className="row filters"
      aria-label="Filter the audit trail"
      onSubmit={(event) => {
        event.preventDefault()
        apply(event.currentTarget)
      }}
    >
      {field('actor', 'User', 'admin')}
      {field('action', 'Action', 'auth.login')}
      {field('object', 'Object', 'repository 3')}
      <select
        className="input"
        name="outcome"
        aria-label="Outcome"
        defaultValue={search.outcome ?? ''}
        onChange={(event) => apply(event.target.form as HTMLFormElement)}
      >
        <option value="">Any outcome</option>
        <option value="ok">ok</option>
        <option value="refused">refused</option>
      </select>
      {day('from', 'From')}
      {day('to', 'To')}
      <button type="submit" hidden>
        Filter
      </button>
      <Export search={search} />
    </form>
  )
}

function Export({ search }: { search: AuditSearch }) {
  const run = useMutation({
    mutationFn: () => save({ audit: asQuery(search) }),
  })
  return (
    <>
      <Button
        acts
        icon="download"
        disabled={run.isPending}
        title="All entries that match, one JSON object on each line"
        onClick={() => run.mutate()}
      >
        Export
      </Button>
      {run.error && <Problem error={run.error} />}
    </>
  )
}

function Entries({ entries, onNarrow }: { entries: Schemas['AuditItem'][]; onNarrow: (more: AuditSearch) => void }) {
  return (
    <div className="card scroll">
      <table>
        <thead>
          <tr>
            <th>When</th>
            <th className="wide-only">User</th>
            <th>Action</th>
            <th className="wide-only">Object</th>
            <th className="wide-only">From</th>
            <th>Outcome</th>
          </tr>
        </thead>
        <tbody>
          {entries.map((one) => (
            <tr key={one.id}>
              <td className="number soft nowrap" title={exactMoment(one.at)}>
                {shortDay(one.at)}, {clockTime(one.at)}
                <span className="sub narrow-only clip actor">{one.actor ?? 'unknown'}</span>
              </td>
              <td className="wide-only">
                {one.actor ? (
                  <Narrow onClick={() => onNarrow({ actor: one.actor ?? undefined })}>
                    <span className="clip actor">{one.actor}</span>
                  </Narrow>
                ) : (
                  <span className="muted">unknown</span>
                )}
              </td>
              <td className="audit-action">
                <Narrow onClick={() => onNarrow({ action: one.action })}>
                  <code>{breakable(one.action)}</code>
                </Narrow>
                <Details of={one} />
              </td>
              <td className="wide-only">{one.object_type && <TheObject of={one} onNarrow={onNarrow} />}</td>
              <td className="wide-only soft number">{one.address}</td>
              <td className={one.outcome === 'ok' ? 'soft' : undefined}>{one.outcome}</td>
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  )
}

/** A long word of a program may go on in the next line after a dot or an underscore. */
const breakable = (word: string) =>
  word.split(/(?<=[._])/).map((part, index) => (
    // biome-ignore lint/suspicious/noArrayIndexKey: parts of one word have no other identity
    <Fragment key={index}>
      {part}
      <wbr />
    </Fragment>
  ))

function TheObject({ of, onNarrow }: { of: Schemas['AuditItem']; onNarrow: (more: AuditSearch) => void }) {
  const words = `${of.object_type} ${of.object_id ?? ''}`.trim()
  return <Narrow onClick={() => onNarrow({ object: words })}>{words}</Narrow>
}

function Narrow({ children, onClick }: { children: React.ReactNode; onClick: () => void }) {
  return (
    <button type="button" className="narrow" title="Apply filters" onClick={onClick}>
      {children}
    </button>
  )
}

function Details({ of }: { of: Schemas['AuditItem'] }) {
  if (Object.keys(of.details).length === 0) return null
  return (
    <details className="audit-details">
      <summary>Details</summary>
      <pre>{JSON.stringify(of.details, null, 2)}</pre>
    </details>
  )
}
