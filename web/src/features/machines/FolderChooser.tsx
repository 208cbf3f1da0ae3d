import { useInfiniteQuery } from '@tanstack/react-query'
import { useState } from 'react'
import { api, data, type Schemas } from '../../api/client'
import { bytes, count } from '../../lib/numbers'
import { Button } from '../../ui/Button'
import { Dialog } from '../../ui/Dialog'
import { Icon } from '../../ui/Icon'
import { Loaded } from '../../ui/States'
import { crumbs, type Place } from './place'

type Entry = Schemas['FolderEntry']

/** Names above which a folder is filtered rather than read. */
const LONG = 12

/** The folders of a machine, one at a time. Files can be chosen where a file makes sense. */
export function FolderChooser({
  place,
  start = '/',
  files = false,
  onChoose,
  onClose,
}: {
  place: Place
  start?: string
  files?: boolean
  onChoose: (path: string) => void
  onClose: () => void
}) {
  const [path, setPath] = useState(start)
  const [text, setText] = useState('')
  const open = (next: string) => {
    setPath(next)
    setText('')
  }
  const query = useInfiniteQuery({
    queryKey: ['folders', place.target, place.machine_id, path, files],
    queryFn: ({ pageParam }) =>
      data(
        api.POST('/api/filesystem/browse', {
          body: {
            target: place.target,
            machine_id: place.machine_id,
            path,
            folders_only: !files,
            limit: 1000,
            cursor: pageParam,
          },
        }),
      ),
    initialPageParam: null as string | null,
    getNextPageParam: (page) => page.next_cursor,
    retry: false,
    staleTime: 10_000,
  })
  const choose = (chosen: string) => {
    onChoose(chosen)
    onClose()
  }
  return (
    <Dialog title={`Folders of ${place.name}`} onClose={onClose}>
      <nav className="row crumbs" aria-label="Folder">
        {crumbs(path).map((one) => (
          <button
            type="button"
            key={one.path}
            className="chip mono"
            aria-pressed={one.path === path}
            onClick={() => open(one.path)}
          >
            {one.name}
          </button>
        ))}
      </nav>
      <div className="chooser">
        <Loaded query={query} height={240}>
          {({ pages }) => {
            const all = pages.flatMap((page) => page.entries)
            const entries = all.filter((entry) => entry.name.toLowerCase().includes(text.trim().toLowerCase()))
            return (
              <>
                {all.length === 0 && <p className="soft pad">{files ? 'This folder is empty.' : 'No folders here.'}</p>}
                {(all.length > LONG || text) && (
                  <input
                    className="input"
                    type="search"
                    placeholder="Filter by name"
                    aria-label="Filter this folder by name"
                    value={text}
                    onChange={(event) => setText(event.target.value)}
                  />
                )}
                {all.length > 0 && entries.length === 0 && (
                  <p className="soft pad">
                    No name here contains “{text.trim()}”
                    {query.hasNextPage ? `, among the first ${count(all.length)}` : ''}.
                  </p>
                )}
                <ul className="plain-list">
                  {entries.map((entry) => (
                    <EntryRow key={entry.path_b64 ?? entry.path} entry={entry} onOpen={open} onChoose={choose} />
                  ))}
                </ul>
                {query.hasNextPage && (
                  <Button small disabled={query.isFetchingNextPage} onClick={() => void query.fetchNextPage()}>
                    Show more
                  </Button>
                )}
                {pages.some((page) => page.truncated) && (
                  <p className="soft">
                    This folder has more than 50,000 names; some are missing here. Type the path instead.
                  </p>
                )}
              </>
            )
          }}
        </Loaded>
      </div>
      <footer>
        <Button onClick={onClose}>Cancel</Button>
        <Button kind="primary" disabled={query.isError} onClick={() => choose(path)}>
          Use this folder
        </Button>
      </footer>
    </Dialog>
  )
}

function EntryRow({
  entry,
  onOpen,
  onChoose,
}: {
  entry: Entry
  onOpen: (path: string) => void
  onChoose: (path: string) => void
}) {
  // A name that is not valid UTF-8 does not fit into a form: the folder above it can be taken instead.
  const nameable = entry.path_b64 === null
  return (
    <li className="row">
      <Icon name={entry.is_folder ? 'folder' : 'file'} />
      {entry.is_folder && nameable ? (
        <button type="button" className="link-button grow mono" onClick={() => onOpen(entry.path)}>
          {entry.name}
        </button>
      ) : (
        <span className="grow mono wrap">{entry.name}</span>
      )}
      {entry.mount && <span className="tag">mounted</span>}
      {!entry.readable && <span className="tag">not readable</span>}
      {entry.size !== null && <span className="soft number">{bytes(entry.size)}</span>}
      {nameable && (
        <Button small kind="plain" aria-label={`Use ${entry.name}`} onClick={() => onChoose(entry.path)}>
          Take
        </Button>
      )}
    </li>
  )
}
