import { keepPreviousData, useQuery } from '@tanstack/react-query'
import { Link, useSearch } from '@tanstack/react-router'
import { api, data, type Schemas } from '../../api/client'
import { keys } from '../../api/keys'
import { useMe } from '../../layout/Shell'
import { useChoose, useChosen } from '../../lib/address'
import { zone } from '../../lib/time'
import { VERDICT } from '../../lib/words'
import { Empty, Loaded } from '../../ui/States'
import { EvidenceTable } from './EvidenceTable'

type Verdict = Schemas['RepositoryEvidence']['verdict']
const WORDS: Verdict[] = ['broken', 'at_risk', 'unproven', 'unknown', 'proven']

export interface Search {
  q?: string
  state?: Verdict
  sort?: 'need' | 'name' | 'size' | 'backup'
}

export function Repositories() {
  const search = useSearch({ strict: false }) as Search
  const { data: me } = useMe()
  const change = useChoose<Search>()
  const filter = { q: search.q ?? '', state: search.state, sort: search.sort ?? 'need', limit: 200 } as const
  const query = useQuery({
    queryKey: keys.evidence(filter),
    queryFn: () => data(api.GET('/api/overview/repositories', { params: { query: { ...filter, tz: zone } } })),
    placeholderData: keepPreviousData,
  })
  return (
    <main>
      <div className="row gap">
        <h1 className="grow">Repositories</h1>
        {me?.role === 'admin' && (
          <>
            <Link to="/repositories/import" className="button">
              Import
            </Link>
            <Link to="/repositories/new" className="button primary">
              Create
            </Link>
          </>
        )}
      </div>
      <Loaded query={query} height={400}>
        {(page) => {
          const known = Object.values(page.counts).reduce((sum, value) => sum + value, 0)
          if (known === 0 && !filter.q)
            return <Empty command="holdfast repos create --help">No repositories yet, or none that you can see.</Empty>
          return (
            <>
              <Filters counts={page.counts} />
              {page.repositories.length === 0 ? (
                <Empty>
                  Nothing matches.{' '}
                  <button type="button" className="link" onClick={() => change({ q: undefined, state: undefined })}>
                    Show all
                  </button>
                </Empty>
              ) : (
                <EvidenceTable rows={page.repositories} />
              )}
            </>
          )
        }}
      </Loaded>
    </main>
  )
}

function Filters({ counts }: { counts: { [word: string]: number } }) {
  const search = useChosen<Search>()
  const change = useChoose<Search>()
  return (
    <div className="row filters">
      <input
        className="input"
        placeholder="Filter by name"
        aria-label="Filter by name"
        value={search.q ?? ''}
        onChange={(event) => change({ q: event.target.value || undefined })}
      />
      {WORDS.filter((word) => (counts[word] ?? 0) > 0 || search.state === word).map((word) => (
        <button
          type="button"
          className="chip"
          key={word}
          aria-pressed={search.state === word}
          onClick={() => change({ state: search.state === word ? undefined : word })}
        >
          {VERDICT[word]?.word} <span className="number">{counts[word] ?? 0}</span>
        </button>
      ))}
      <select
        className="input"
        aria-label="Sort"
        value={search.sort ?? 'need'}
        onChange={(event) => change({ sort: event.target.value as Search['sort'] })}
      >
        <option value="need">Needs attention first</option>
        <option value="name">By name</option>
        <option value="size">Largest first</option>
        <option value="backup">Oldest backup first</option>
      </select>
    </div>
  )
}
