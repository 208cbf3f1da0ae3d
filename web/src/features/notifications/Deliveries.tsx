import { useInfiniteQuery, useMutation, useQueryClient } from '@tanstack/react-query'
import { useState } from 'react'
import { api, data, type Schemas } from '../../api/client'
import { keys } from '../../api/keys'
import { moment } from '../../lib/time'
import { Age } from '../../ui/Age'
import { Button } from '../../ui/Button'
import { Glyph, type GlyphName } from '../../ui/Glyph'
import { Empty, Loaded, Problem } from '../../ui/States'

type Delivery = Schemas['DeliveryAnswer']
const PAGE = 50
const LOOK: Record<string, [GlyphName, string]> = {
  waiting: ['wait', 'waits'],
  sending: ['run', 'being sent'],
  sent: ['ok', 'sent'],
  failed: ['bad', 'failed'],
  cancelled: ['unknown', 'cancelled'],
}

/** What was sent, and what came of it. */
export function Deliveries() {
  const [failed, setFailed] = useState(false)
  const query = useInfiniteQuery({
    queryKey: [...keys.deliveries, failed],
    queryFn: ({ pageParam }) =>
      data(
        api.GET('/api/notifications/deliveries', {
          params: { query: { limit: PAGE, before: pageParam, state: failed ? 'failed' : undefined } as never },
        }),
      ),
    initialPageParam: undefined as number | undefined,
    getNextPageParam: (page) => (page.deliveries.length < PAGE ? undefined : page.deliveries.at(-1)?.id),
  })
  return (
    <>
      <div className="row filters">
        <button type="button" className="chip" aria-pressed={!failed} onClick={() => setFailed(false)}>
          All
        </button>
        <button type="button" className="chip" aria-pressed={failed} onClick={() => setFailed(true)}>
          Failed
        </button>
      </div>
      <Loaded query={query} height={200}>
        {(pages) => {
          const deliveries = pages.pages.flatMap((page) => page.deliveries)
          if (deliveries.length === 0)
            return <Empty>{failed ? 'No message failed in the last 30 days.' : 'No messages yet.'}</Empty>
          return (
            <>
              <div className="card scroll">
                <table>
                  <thead>
                    <tr>
                      <th>Message</th>
                      <th className="wide-only">Channel</th>
                      <th>Outcome</th>
                      <th className="wide-only">When</th>
                      <th>
                        <span className="visually-hidden">Acts</span>
                      </th>
                    </tr>
                  </thead>
                  <tbody>
                    {deliveries.map((one) => (
                      <Row key={one.id} delivery={one} />
                    ))}
                  </tbody>
                </table>
              </div>
              {query.hasNextPage && (
                <p className="more">
                  <Button onClick={() => void query.fetchNextPage()}>Show older</Button>
                </p>
              )}
            </>
          )
        }}
      </Loaded>
    </>
  )
}

function Row({ delivery }: { delivery: Delivery }) {
  const client = useQueryClient()
  const retry = useMutation({
    mutationFn: () =>
      data(
        api.POST('/api/notifications/deliveries/{delivery_id}/retry', {
          params: { path: { delivery_id: delivery.id } },
        }),
      ),
    onSuccess: () => void client.invalidateQueries({ queryKey: ['notifications'] }),
  })
  const [glyph, word] = LOOK[delivery.state] ?? (['unknown', delivery.state] as const)
  const title = delivery.subject ?? String(delivery.items[0]?.title ?? delivery.type)
  return (
    <tr>
      <td>
        <span className="name">{title}</span>
        <span className="sub narrow-only">{delivery.destination}</span>
        {delivery.last_error && delivery.state !== 'sent' && <span className="sub wrap">{delivery.last_error}</span>}
      </td>
      <td className="wide-only soft">{delivery.destination ?? 'deleted channel'}</td>
      <td>
        <span className={glyph === 'bad' ? 'evidence failed' : 'evidence'}>
          <Glyph name={glyph} /> {word}
        </span>
        {delivery.attempts > 1 && <span className="sub">{delivery.attempts} attempts</span>}
        {delivery.next_attempt_at && !delivery.ended_at && (
          <span className="sub">next {moment(delivery.next_attempt_at)}</span>
        )}
      </td>
      <td className="wide-only soft">
        <Age at={delivery.ended_at ?? delivery.created_at} words />
      </td>
      <td className="right">
        {delivery.state === 'failed' && (
          <Button acts small disabled={retry.isPending} onClick={() => retry.mutate()}>
            Send again
          </Button>
        )}
        {retry.error && <Problem error={retry.error} />}
      </td>
    </tr>
  )
}
