import { useQuery } from '@tanstack/react-query'
import { Link } from '@tanstack/react-router'
import { api, data, type Schemas } from '../../api/client'
import { keys } from '../../api/keys'
import { bytes } from '../../lib/numbers'
import { shortDay } from '../../lib/time'
import { kindWord } from '../../lib/words'
import { place, steps, top } from './growth'

const WIDTH = 1000
const HEIGHT = 120

/** How much is backed up, and how much of the disk that takes. */
export function Growth({ id }: { id: number }) {
  const query = useQuery({
    queryKey: keys.sizes(id),
    queryFn: () =>
      data(api.GET('/api/repositories/{repository_id}/sizes', { params: { path: { repository_id: id } } })),
  })
  const sizes = query.data
  if (!sizes || sizes.data.length + sizes.points.length < 3) return null
  return (
    <section className="card pad growth" aria-label="Growth">
      <div className="row">
        <h2>Growth</h2>
        <span className="muted number">
          <i className="files" /> {latest(sizes.data.map((one) => one.original_size))} of files
        </span>
        {sizes.points.length > 0 && (
          <span className="muted number">
            <i className="stored" /> {latest(sizes.points.map((one) => one.unique_size))} stored
          </span>
        )}
        {sizes.storage && <span className="muted number end">{bytes(sizes.storage.free_bytes)} free on its disk</span>}
      </div>
      <Chart sizes={sizes} />
    </section>
  )
}

const latest = (all: number[]) => bytes(all.at(-1) ?? 0)

function Chart({ sizes }: { sizes: Schemas['Sizes'] }) {
  const files = sizes.data.map((one) => ({ at: Date.parse(one.at), size: one.original_size }))
  const stored = sizes.points.map((one) => ({ at: Date.parse(one.at), size: one.unique_size }))
  const from = Math.min(...[...files, ...stored].map((one) => one.at))
  const until = Date.parse(`${sizes.until}T23:59:59Z`)
  const most = top([...files, ...stored])
  const box = { from, until, most, width: WIDTH, height: HEIGHT }
  return (
    <>
      <svg
        viewBox={`0 0 ${WIDTH} ${HEIGHT}`}
        preserveAspectRatio="none"
        role="img"
        aria-label={`From ${shortDay(new Date(from).toISOString())} to ${shortDay(sizes.until)}, at most ${bytes(most)}`}
      >
        <path className="files" d={steps(files, box)} />
        {stored.length > 0 && <path className="stored" d={steps(stored, box)} />}
        {sizes.marks.map((mark) => (
          <line
            key={mark.operation_id}
            x1={place(Date.parse(mark.at), box)}
            x2={place(Date.parse(mark.at), box)}
            y1={0}
            y2={HEIGHT}
          >
            <title>{`${kindWord(mark.kind)}, ${shortDay(mark.at)}`}</title>
          </line>
        ))}
      </svg>
      <div className="row muted ends">
        <span>{shortDay(new Date(from).toISOString())}</span>
        <Latest marks={sizes.marks} />
        <span>{shortDay(sizes.until)}</span>
      </div>
    </>
  )
}

function Latest({ marks }: { marks: Schemas['Mark'][] }) {
  const last = marks.at(-1)
  if (!last) return null
  return (
    <Link to="/operations/$id" params={{ id: String(last.operation_id) }}>
      {kindWord(last.kind)} on {shortDay(last.at)}
    </Link>
  )
}
