import { useQuery } from '@tanstack/react-query'
import { type NavigateOptions, useNavigate } from '@tanstack/react-router'
import { memo, useCallback, useDeferredValue, useEffect, useMemo, useRef, useState } from 'react'
import { api, data, type Schemas } from '../api/client'
import { keys } from '../api/keys'
import { Icon, type IconName } from '../ui/Icon'

interface Place {
  to: string
  name: string
  icon: IconName
}

interface Found {
  key: string
  name: string
  hint: string
  icon: IconName
  to: NavigateOptions
}

const MOST_REPOSITORIES = 8
const NOTHING: Found[] = []

/** Everything by its name: pages, repositories, operations. */
export function Palette({ places, onClose }: { places: Place[]; onClose: () => void }) {
  const box = useRef<HTMLDialogElement>(null)
  const [text, setText] = useState('')
  const [chosen, setChosen] = useState(0)
  const navigate = useNavigate()
  const { data: known } = useQuery({
    queryKey: keys.repositories,
    queryFn: () => data(api.GET('/api/repositories/')),
  })
  useEffect(() => {
    const dialog = box.current
    if (dialog && !dialog.open) dialog.showModal()
    return () => dialog?.close()
  }, [])
  const found = useMemo(() => findAll(text, places, known?.repositories ?? []), [text, places, known])
  // The field opens and has its letter at once, what it finds a frame later. Enter picks from what the whole text finds.
  const listed = useDeferredValue(found, NOTHING)
  const pick = useCallback(
    (one: Found | undefined) => {
      if (!one) return
      onClose()
      void navigate(one.to)
    },
    [navigate, onClose],
  )
  return (
    <dialog ref={box} aria-label="Search" onCancel={onClose} onClose={onClose} className="palette">
      <div>
        <input
          className="input"
          placeholder="Page, repository, operation or file name"
          aria-label="Search"
          value={text}
          onChange={(event) => {
            setText(event.target.value)
            setChosen(0)
          }}
          onKeyDown={(event) => {
            if (event.key === 'ArrowDown' || event.key === 'ArrowUp') {
              event.preventDefault()
              const step = event.key === 'ArrowDown' ? 1 : -1
              setChosen((old) => Math.max(0, Math.min(found.length - 1, old + step)))
            } else if (event.key === 'Enter') {
              event.preventDefault()
              pick(found[chosen])
            }
          }}
        />
        <Results found={listed} chosen={chosen} onPick={pick} onChoose={setChosen} />
      </div>
    </dialog>
  )
}

const Results = memo(
  (props: { found: Found[]; chosen: number; onPick: (one: Found) => void; onChoose: (place: number) => void }) => (
    <div role="listbox" aria-label="Found">
      {props.found.map((one, place) => (
        <button
          type="button"
          role="option"
          aria-selected={place === props.chosen}
          key={one.key}
          onClick={() => props.onPick(one)}
          onMouseEnter={() => props.onChoose(place)}
        >
          <Icon name={one.icon} />
          <span className="grow">{one.name}</span>
          <span className="muted">{one.hint}</span>
        </button>
      ))}
      {props.found.length === 0 && props.found !== NOTHING && <p className="muted">No matches.</p>}
    </div>
  ),
)

function findAll(text: string, places: Place[], repositories: Schemas['RepositoryAnswer'][]): Found[] {
  const wanted = text.trim().toLowerCase()
  const matches = ({ name }: { name: string }) => name.toLowerCase().includes(wanted)
  const found: Found[] = []
  if (wanted.length >= 3)
    found.push({
      key: 'search',
      name: `Find files named “${text.trim()}”`,
      hint: 'in every repository',
      icon: 'search',
      to: { to: '/search', search: { q: text.trim() } },
    })
  if (/^#?\d+$/.test(wanted)) {
    const id = wanted.replace('#', '')
    found.push({
      key: 'operation',
      name: `Operation ${id}`,
      hint: 'log and result',
      icon: 'activity',
      to: { to: '/operations/$id', params: { id } },
    })
  }
  for (const { to, name, icon } of places.filter(matches))
    found.push({ key: to, name, hint: 'page', icon, to: { to } as NavigateOptions })
  for (const { id, name } of repositories.filter(matches).slice(0, MOST_REPOSITORIES)) {
    const params = { id: String(id) }
    found.push(
      { key: `r${id}`, name, hint: 'repository', icon: 'repository', to: { to: '/repositories/$id', params } },
      {
        key: `f${id}`,
        name: `Files of ${name}`,
        hint: 'time machine',
        icon: 'files',
        to: { to: '/files/$id', params },
      },
    )
  }
  return found
}
