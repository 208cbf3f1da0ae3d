import { Link, useRouter } from '@tanstack/react-router'
import { useDeferredValue, useEffect } from 'react'
import type { Schemas } from '../../api/client'
import { useOverview } from '../../api/overview'
import { useMe } from '../../layout/Shell'
import { count, counted, inLetters } from '../../lib/numbers'
import { age } from '../../lib/time'
import { Age, useNow } from '../../ui/Age'
import { Ring } from '../../ui/Ring'
import { Empty, Loaded } from '../../ui/States'
import { EvidenceTable } from '../repositories/EvidenceTable'
import { ActiveOperations } from './Active'
import { Alarms } from './Alarms'
import { NeedsYou } from './NeedsYou'
import { Tide } from './Tide'

type Answer = Schemas['OverviewAnswer']

export function Overview() {
  const query = useOverview()
  return (
    <main>
      <Loaded query={query} height={480}>
        {(overview) => (overview.verdict === 'empty' ? <Nothing /> : <Everything overview={overview} />)}
      </Loaded>
    </main>
  )
}

/** Nothing is there: the first admin is led to a first backup, unless they chose to look around first. */
function Nothing() {
  const { data: me } = useMe()
  const router = useRouter()
  const lead = me?.role === 'admin' && sessionStorage.getItem('welcome-skipped') === null
  useEffect(() => {
    // Not if another page was chosen in the meantime.
    if (lead && router.latestLocation.pathname === '/')
      void router.navigate({ to: '/welcome/{-$step}', params: { step: 'what' }, replace: true })
  }, [lead, router])
  if (me === undefined || lead) return null
  return (
    <>
      <section className="verdict">
        <Ring counts={{}} label="No repositories" />
        <div>
          <h1>{me.role === 'admin' ? 'Nothing is backed up yet.' : 'Nothing is shared with you yet.'}</h1>
          <p>
            {me.role === 'admin'
              ? 'Create the first backup, or import a repository that borg or another program has made.'
              : 'Repositories appear here once an admin gives you access.'}
          </p>
        </div>
      </section>
      {me.role === 'admin' && (
        <Empty command="holdfast repos create --help">
          <div className="row">
            <Link to="/welcome/{-$step}" params={{ step: 'what' }} className="button primary">
              Create the first backup
            </Link>
            <Link to="/repositories/import" className="button">
              Import a repository
            </Link>
          </div>
        </Empty>
      )}
    </>
  )
}

function Everything({ overview }: { overview: Answer }) {
  const total = Object.values(overview.counts).reduce((sum, value) => sum + value, 0)
  const proven = overview.counts.proven ?? 0
  const needs = total - proven
  useTitle(needs)
  // The verdict is what people come for: it is painted first, what stands below it a moment later.
  const all = useDeferredValue(true, false)
  return (
    <>
      <section className="verdict" aria-live="polite">
        <Ring counts={overview.counts} label={`${proven} of ${total} repositories are proven restorable`} />
        <div>
          <h1>
            {sentence(proven, total)}{' '}
            <span className="rest">{needs > 0 && `${inLetters(needs)} ${needs === 1 ? 'needs' : 'need'} you.`}</span>
          </h1>
          <Facts overview={overview} />
        </div>
      </section>
      <div className="two">
        <NeedsYou items={overview.attention} />
        <ActiveOperations running={overview.running} waiting={overview.waiting} />
      </div>
      {all && (
        <>
          <Alarms />
          <Tide />
          <section>
            <div className="head">
              <h2>Repositories</h2>
              <span className="muted">needs attention first</span>
              <Link to="/repositories" className="end">
                {total === 1 ? 'All' : `All ${count(total)}`}
              </Link>
            </div>
            <EvidenceTable rows={overview.repositories} />
          </section>
        </>
      )}
    </>
  )
}

function sentence(proven: number, total: number): string {
  if (proven === total) return total === 1 ? 'Your repository is proven restorable.' : 'Everything is restorable.'
  if (proven === 0)
    return total === 1
      ? 'Your repository is not proven restorable yet.'
      : `None of ${total} repositories is proven restorable yet.`
  return `${proven} of ${total} repositories ${proven === 1 ? 'is' : 'are'} proven restorable.`
}

function Facts({ overview }: { overview: Answer }) {
  const { newest_proof: proof, data_age: dataAge } = overview
  const now = useNow()
  return (
    <p>
      Judged <Age at={overview.judged_at} words />
      {/* Without an index it is not known how many there are. */}
      {overview.archives > 0 && ` from ${counted(overview.archives, 'archive')}`}.{' '}
      {proof ? (
        <>
          Newest proof:{' '}
          <Link to="/operations/$id" params={{ id: String(proof.operation_id) }} className="link">
            <Age at={proof.at} words />
            {proof.files ? `, ${counted(proof.files, 'file')} read back` : ''}
          </Link>
          .{' '}
        </>
      ) : (
        'No file has been read back yet. '
      )}
      {dataAge.newest && dataAge.oldest && (
        <>
          If every machine failed now, the data you could recover would be <Age at={dataAge.newest} />
          {age(dataAge.oldest, now) !== age(dataAge.newest, now) && (
            <>
              {' '}
              to <Age at={dataAge.oldest} />
            </>
          )}{' '}
          old.
        </>
      )}
    </p>
  )
}

/** The tab's title and icon show the state without opening it. */
function useTitle(needs: number): void {
  useEffect(() => {
    document.title = needs ? `(${needs}) Holdfast` : 'Holdfast'
    return () => {
      document.title = 'Holdfast'
    }
  }, [needs])
}
