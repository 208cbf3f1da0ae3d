import { useQuery } from '@tanstack/react-query'
import { useEffect, useState } from 'react'
import { bytes, counted } from '../../lib/numbers'
import { moment } from '../../lib/time'
import { Button } from '../../ui/Button'
import { Loaded, Note, Problem } from '../../ui/States'
import { changed } from './diff'
import { content, download } from './download'
import { at, type Lane, type Lanes } from './model'

const MOST_SHOWN = 512 * 1024
const IMAGES: Record<string, string> = {
  png: 'image/png',
  jpg: 'image/jpeg',
  jpeg: 'image/jpeg',
  gif: 'image/gif',
  webp: 'image/webp',
  avif: 'image/avif',
}

interface Props {
  id: number
  lane: Lane
  lanes: Lanes
  step: number
  /** Why nothing can be restored by this user. */
  refusal?: string
  /** Of a comparison: the earlier and the later archive. */
  versus?: [number, number]
  onStep: (step: number) => void
  onRestore: () => void
  onClose: () => void
}

export function Inspector({ id, lane, lanes, step, versus, refusal, onStep, onRestore, onClose }: Props) {
  const here = at(lane, step, lanes.archives.length)
  const archive = lanes.archives[step]
  const present = here.state === 'here'
  const [refused, setRefused] = useState<unknown>(null)
  return (
    <aside className="inspector" aria-label={lane.name}>
      <div className="row">
        <h1 className="grow">{lane.name}</h1>
        <Button small kind="plain" icon="close" aria-label="Close" onClick={onClose} />
      </div>
      {present ? (
        <p className="soft">
          {here.piece.size !== null && `${bytes(here.piece.size)}, `}
          {here.piece.mtime ? `changed ${moment(here.piece.mtime)}` : lane.type === 'd' ? 'a folder' : ''}
        </p>
      ) : (
        <Note>It is not in this archive. Choose one of its versions below.</Note>
      )}
      {versus && <Fate lane={lane} lanes={lanes} versus={versus} />}
      {present && archive && (
        <div className="row">
          <Button kind="primary" icon="restore" disabled={refusal !== undefined} title={refusal} onClick={onRestore}>
            Restore…
          </Button>
          <Button
            acts
            icon="download"
            onClick={() =>
              void download(id, archive.id, [lane], lane.type === '-' ? 'file' : 'folder').then(
                () => setRefused(null),
                setRefused,
              )
            }
          >
            Download
          </Button>
        </div>
      )}
      {refused !== null && <Problem error={refused} />}
      {present && archive && lane.type === '-' && (
        <Preview id={id} lane={lane} lanes={lanes} step={step} versus={versus} size={here.piece.size ?? 0} />
      )}
      <Versions lane={lane} lanes={lanes} step={step} onStep={onStep} />
    </aside>
  )
}

/** What happened to it between the two archives. */
function Fate({ lane, lanes, versus }: { lane: Lane; lanes: Lanes; versus: [number, number] }) {
  const [from, to] = versus
  const [before, after] = [at(lane, from, lanes.archives.length), at(lane, to, lanes.archives.length)]
  const [earlier, later] = [lanes.archives[from], lanes.archives[to]]
  if (!earlier || !later) return null
  if (before.state === 'absent' && after.state === 'here')
    return <Note title="Added">It is not in the archive of {moment(earlier.start)}.</Note>
  if (before.state === 'here' && after.state === 'absent')
    return (
      <Note title="Removed">
        It is not in the archive of {moment(later.start)}. This is how it was on {moment(earlier.start)}.
      </Note>
    )
  return null
}

function Versions({
  lane,
  lanes,
  step,
  onStep,
}: {
  lane: Lane
  lanes: Lanes
  step: number
  onStep: (step: number) => void
}) {
  return (
    <section>
      <div className="head">
        <h2>{counted(lane.pieces.length, 'version')}</h2>
      </div>
      <ul className="versions">
        {[...lane.pieces].reverse().map((piece) => {
          const first = lanes.archives[piece.first]
          const after = lanes.archives[piece.last + 1]
          const shown = piece.first <= step && step <= piece.last
          return (
            <li key={piece.first}>
              <button type="button" aria-current={shown ? 'true' : undefined} onClick={() => onStep(piece.last)}>
                <i style={{ background: shown ? 'var(--lane)' : 'var(--lane-a)' }} />
                <span className="grow">
                  {first && moment(first.start)}
                  <span className="sub">
                    until {after ? moment(after.start) : 'now'}, {counted(piece.last - piece.first + 1, 'archive')}
                  </span>
                </span>
                <span className="muted number">{shown ? 'shown' : piece.size === null ? '' : bytes(piece.size)}</span>
              </button>
            </li>
          )
        })}
      </ul>
    </section>
  )
}

function Preview({
  id,
  lane,
  lanes,
  step,
  versus,
  size,
}: {
  id: number
  lane: Lane
  lanes: Lanes
  step: number
  versus?: [number, number]
  size: number
}) {
  const archive = lanes.archives[step]
  const other = comparedWith(lane, lanes, step, versus)
  const small = size <= MOST_SHOWN
  const query = useQuery({
    queryKey: ['preview', id, archive?.id, lane.path_b64 ?? lane.path],
    queryFn: () => content(id, archive?.id ?? 0, lane),
    enabled: small && Boolean(archive),
    staleTime: Number.POSITIVE_INFINITY,
    gcTime: 60_000,
  })
  const against = useQuery({
    queryKey: ['preview', id, other?.id, lane.path_b64 ?? lane.path],
    queryFn: () => content(id, other?.id ?? 0, lane),
    enabled: small && other !== null && other !== undefined,
    staleTime: Number.POSITIVE_INFINITY,
    gcTime: 60_000,
  })
  if (!small) return <p className="muted">Too large to preview ({bytes(size)}). Download it to look inside.</p>
  const type = IMAGES[lane.name.split('.').at(-1)?.toLowerCase() ?? '']
  return (
    <Loaded query={query} height={160}>
      {(blob) =>
        type ? (
          <Picture blob={blob} type={type} name={lane.name} />
        ) : (
          <Text blob={blob} other={against.data ?? null} isEarlier={versus !== undefined} />
        )
      }
    </Loaded>
  )
}

/** Without a comparison a version is shown against the newest one. */
function comparedWith(lane: Lane, lanes: Lanes, step: number, versus?: [number, number]) {
  if (!versus) {
    const newest = lane.pieces.at(-1)
    return newest && newest.first > step ? lanes.archives[newest.last] : null
  }
  const [from, to] = versus
  const [before, after] = [at(lane, from, lanes.archives.length), at(lane, to, lanes.archives.length)]
  const both = step === to && before.state === 'here' && after.state === 'here' && before.piece !== after.piece
  return both ? lanes.archives[from] : null
}

function Picture({ blob, type, name }: { blob: Blob; type: string; name: string }) {
  const [url, setUrl] = useState('')
  useEffect(() => {
    const made = URL.createObjectURL(new Blob([blob], { type }))
    setUrl(made)
    return () => URL.revokeObjectURL(made)
  }, [blob, type])
  return url ? <img className="preview-image" src={url} alt={name} /> : null
}

function Text({ blob, other: compared, isEarlier }: { blob: Blob; other: Blob | null; isEarlier: boolean }) {
  const text = useText(blob)
  const other = useText(compared)
  if (text === null) return <p className="muted">No preview: not a text file.</p>
  if (text === undefined) return null
  if (typeof other === 'string' && other !== text)
    return isEarlier ? (
      <Difference title="The earlier against the later" before={other} after={text} />
    ) : (
      <Difference title="This version against the newest" before={text} after={other} />
    )
  return <pre className="preview">{text.slice(0, 100_000)}</pre>
}

/** The text of a file; null if it is none; undefined while it is read. */
function useText(blob: Blob | null): string | null | undefined {
  const [text, setText] = useState<string | null | undefined>(undefined)
  useEffect(() => {
    setText(undefined)
    if (!blob) return
    let current = true
    void blob.arrayBuffer().then((buffer) => {
      if (!current) return
      try {
        const found = new TextDecoder('utf-8', { fatal: true }).decode(buffer)
        setText(found.includes('\0') ? null : found)
      } catch {
        setText(null)
      }
    })
    return () => {
      current = false
    }
  }, [blob])
  return text
}

function Difference({ title, before, after }: { title: string; before: string; after: string }) {
  const lines = changed(before, after)
  const added = lines.filter((line) => line.kind === '+').length
  const removed = lines.filter((line) => line.kind === '-').length
  return (
    <section>
      <div className="head">
        <h2>{title}</h2>
        <span className="end number">
          +{added} −{removed}
        </span>
      </div>
      <pre className="preview diff">
        {lines.map((line, index) => (
          // biome-ignore lint/suspicious/noArrayIndexKey: lines have no identity
          <span key={index} className={line.kind === '+' ? 'added' : line.kind === '-' ? 'removed' : undefined}>
            {line.kind} {line.text}
            {'\n'}
          </span>
        ))}
      </pre>
    </section>
  )
}
