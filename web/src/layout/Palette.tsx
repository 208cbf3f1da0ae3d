import { useQuery } from '@tanstack/react-query'
import { useNavigate } from '@tanstack/react-router'
import { useEffect, useRef, useState } from 'react'
import { api, data } from '../api/client'
import { keys } from '../api/keys'
import { Icon, type IconName } from '../ui/Icon'

interface Found {
  key: string
  name: string
  hint: string
  icon: IconName
  go: () => void
}

/** Everything by its name: pages, repositories, operations. */
export function Palette({
  places,
  onClose,
}: {
  places: { to: string; name: string; icon: IconName }[]
  onClose: () => void
}) {
  const box = useRef<HTMLDialogElement>(null)
  const [text, setText] = useState('')
  const [chosen, setChosen] = useState(0)
  const navigate = useNavigate()
  const repositories = useQuery({ queryKey: keys.repositories, queryFn: () => data(api.GET('/api/repositories/')) })
  useEffect(() => {
    const dialog = box.current
    if (dialog && !dialog.open) dialog.showModal()
    return () => dialog?.close()
  }, [])
  const wanted = text.trim().toLowerCase()
  const matches = (name: string) => name.toLowerCase().includes(wanted)
  const found: Found[] = [
    ...(wanted.length >= 3
      ? [
          {
            key: 'search',
            name: `Find files named “${text.trim()}”`,
            hint: 'in every repository',
            icon: 'search' as const,
            go: () => void navigate({ to: '/search', search: { q: text.trim() } }),
          },
        ]
      : []),
    ...(/^#?\d+$/.test(wanted)
      ? [
          {
            key: 'operation',
            name: `Operation ${wanted.replace('#', '')}`,
            hint: 'log and result',
            icon: 'activity' as const,
            go: () => void navigate({ to: '/operations/$id', params: { id: wanted.replace('#', '') } }),
          },
        ]
      : []),
    ...places
      .filter((place) => matches(place.name))
      .map((place) => ({
        key: place.to,
        name: place.name,
        hint: 'page',
        icon: place.icon,
        go: () => void navigate({ to: place.to }),
      })),
    ...(repositories.data?.repositories ?? [])
      .filter((one) => matches(one.name))
      .slice(0, 8)
      .flatMap((one): Found[] => [
        {
          key: `r${one.id}`,
          name: one.name,
          hint: 'repository',
          icon: 'repository' as const,
          go: () => void navigate({ to: '/repositories/$id', params: { id: String(one.id) } }),
        },
        {
          key: `f${one.id}`,
          name: `Files of ${one.name}`,
          hint: 'time machine',
          icon: 'files' as const,
          go: () => void navigate({ to: '/files/$id', params: { id: String(one.id) } }),
        },
      ]),
  ]
  const pick = (one: Found | undefined) => {
    if (!one) return
    onClose()
    one.go()
  }
  return (
    <dialog ref={box} aria-label="Search" onCancel={onClose} onClose={onClose} className="palette">
      <div>
        <input
          className="input"
          placeholder="A page, a repository, an operation, or a file's name"
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
        <div role="listbox" aria-label="Found">
          {found.map((one, index) => (
            <button
              type="button"
              role="option"
              aria-selected={index === chosen}
              key={one.key}
              onClick={() => pick(one)}
              onMouseEnter={() => setChosen(index)}
            >
              <Icon name={one.icon} />
              <span className="grow">{one.name}</span>
              <span className="muted">{one.hint}</span>
            </button>
          ))}
          {found.length === 0 && <p className="muted">Nothing by that name.</p>}
        </div>
      </div>
    </dialog>
  )
}
