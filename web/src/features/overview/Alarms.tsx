import { useMutation, useQuery, useQueryClient } from '@tanstack/react-query'
import { Link } from '@tanstack/react-router'
import { api, data, type Schemas } from '../../api/client'
import { keys } from '../../api/keys'
import { Age } from '../../ui/Age'
import { Button } from '../../ui/Button'
import { Glyph } from '../../ui/Glyph'
import { Problem } from '../../ui/States'

/** Open alarms. Taken note of, they are silent until they get worse. */
export function Alarms() {
  const query = useQuery({
    queryKey: keys.alarms,
    queryFn: () => data(api.GET('/api/alarms', { params: { query: { 'state[]': ['open'] } as never } })),
  })
  const alarms = (query.data?.alarms ?? []).filter((one) => one.state === 'open')
  if (query.error && !query.data)
    return (
      <section className="gap" aria-label="Alarms">
        <Problem error={query.error} />
      </section>
    )
  if (alarms.length === 0) return null
  return (
    <section className="gap" aria-label="Alarms">
      <div className="head">
        <h2>Alarms</h2>
        <span className="muted">{alarms.length}</span>
        <Link to="/notifications/alarms" className="end">
          All
        </Link>
      </div>
      <div className="card needs">
        {alarms.slice(0, 5).map((one) => (
          <Row key={one.id} alarm={one} />
        ))}
      </div>
    </section>
  )
}

function Row({ alarm }: { alarm: Schemas['AlarmItem'] }) {
  const client = useQueryClient()
  const note = useMutation({
    mutationFn: () =>
      data(
        api.POST('/api/alarms/{alarm_id}/acknowledge', { params: { path: { alarm_id: alarm.id } }, body: {} as never }),
      ),
    onSuccess: () => void client.invalidateQueries({ queryKey: keys.alarms }),
  })
  return (
    <div className="needs-row">
      <Glyph name={alarm.severity === 'critical' ? 'bad' : 'warn'} />
      <div>
        {alarm.message}
        <p>
          began <Age at={alarm.since} words />
        </p>
        {note.error && <Problem error={note.error} />}
      </div>
      <div className="row acts">
        <Button acts small disabled={note.isPending} onClick={() => note.mutate()}>
          Acknowledge
        </Button>
      </div>
    </div>
  )
}
