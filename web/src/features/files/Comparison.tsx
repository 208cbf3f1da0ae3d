import { keepPreviousData, useInfiniteQuery } from '@tanstack/react-query'
import { type KeyboardEvent, useMemo } from 'react'
import { api, data, type Schemas } from '../../api/client'
import { counted } from '../../lib/numbers'
import { moment } from '../../lib/time'
import { Button } from '../../ui/Button'
import { Icon } from '../../ui/Icon'
import { Loaded, Note } from '../../ui/States'
import { inWords, signed, sum, word } from './differences'
import { LaneView } from './LaneView'
import { key, type Lane, type Lanes } from './model'
import { focusBeside } from './Row'
import type { Part } from './zoom'

type Group = Schemas['ChangeGroup']

const PAGE = 500

interface Props {
  id: number
  lanes: Lanes
  /** Steps of the two archives, the earlier one first. */
  from: number
  to: number
  /** The archives whose lanes are shown. */
  part: Part
  selected?: string
  onOpen: (entry: { path: string; path_b64?: string | null }) => void
  onSelect: (lane: Lane) => void
}

/** What was added, changed and removed in a folder between two archives, summed up for each of its names. */
export function Comparison({ id, lanes, from, to, part, selected, onOpen, onSelect }: Props) {
  const [earlier, later] = [lanes.archives[from], lanes.archives[to]]
  const query = useInfiniteQuery({
    queryKey: ['repository', id, 'comparison', key(lanes), earlier?.id, later?.id],
    placeholderData: keepPreviousData,
    queryFn: ({ pageParam }) =>
      data(
        api.GET('/api/repositories/{repository_id}/archives/{archive_id}/changes', {
          params: {
            path: { repository_id: id, archive_id: later?.id ?? 0 },
            query: {
              compare_to: earlier?.id,
              ...(lanes.path_b64 ? { path_b64: lanes.path_b64 } : { path_prefix: lanes.path }),
              group_by: 'folder',
              limit: PAGE,
              cursor: pageParam,
            },
          },
        }),
      ),
    initialPageParam: undefined as string | undefined,
    getNextPageParam: (page) => page.next_cursor ?? undefined,
    enabled: from !== to,
    staleTime: Number.POSITIVE_INFINITY, // archives do not change
  })
  const byKey = useMemo(() => new Map(lanes.entries.map((lane) => [key(lane), lane])), [lanes.entries])
  if (from === to || !earlier || !later)
    return (
      <div className="tm-rows">
        <p className="muted tm-empty">Both times are the same archive. Choose a different one below.</p>
      </div>
    )
  return (
    <div className="tm-rows" aria-busy={query.isPlaceholderData}>
      <Loaded query={query} height={240}>
        {(found) => {
          const groups = found.pages.flatMap((page) => page.groups ?? [])
          const first = found.pages[0]
          return (
            <>
              <p className="tm-summary soft" aria-live="polite">
                {groups.length === 0 ? (
                  <>
                    Nothing in this folder differs between <b>{moment(earlier.start)}</b> and{' '}
                    <b>{moment(later.start)}</b>.
                  </>
                ) : (
                  <>
                    {inWords(sum(groups))}
                    {found.pages.at(-1)?.next_cursor && ' so far'}
                    {first?.byte_totals.bytes_net != null && `, ${signed(first.byte_totals.bytes_net)} in all`}
                  </>
                )}
              </p>
              {first?.incomplete && (
                <Note warn>
                  {counted(first.unindexed_archive_ids.length, 'archive')} between them{' '}
                  {first.unindexed_archive_ids.length === 1 ? 'is' : 'are'} not indexed, so changes in them are not
                  known.
                </Note>
              )}
              {groups.length > 0 && (
                <div role="treegrid" aria-label="Differences">
                  <div className="tm-grid tm-compare tm-head" role="row">
                    <span role="columnheader">Name</span>
                    <span role="columnheader">Difference</span>
                    <span role="columnheader" className="right">
                      Size
                    </span>
                    <span role="columnheader" className="wide-only">
                      History
                    </span>
                  </div>
                  {groups.map((group) => (
                    <GroupRow
                      key={key(group)}
                      group={group}
                      lane={byKey.get(key(group))}
                      archives={lanes.archives.length}
                      from={from}
                      to={to}
                      part={part}
                      selected={selected === key(group)}
                      onOpen={onOpen}
                      onSelect={onSelect}
                    />
                  ))}
                </div>
              )}
              {query.hasNextPage && (
                <p className="tm-empty">
                  <Button onClick={() => void query.fetchNextPage()}>Show more names</Button>
                </p>
              )}
            </>
          )
        }}
      </Loaded>
    </div>
  )
}

function GroupRow({
  group,
  lane,
  archives,
  from,
  to,
  part,
  selected,
  onOpen,
  onSelect,
}: {
  group: Group
  lane: Lane | undefined
  archives: number
  from: number
  to: number
  part: Part
  selected: boolean
} & Pick<Props, 'onOpen' | 'onSelect'>) {
  const isFolder = group.type === 'd'
  const act = () => (isFolder ? onOpen(group) : lane && onSelect(lane))
  const keys = (event: KeyboardEvent) => {
    if (event.key === 'Enter') act()
    else if (event.key === ' ') {
      event.preventDefault()
      if (lane) onSelect(lane)
    } else if (event.key === 'ArrowDown' || event.key === 'j') focusBeside(event, 1)
    else if (event.key === 'ArrowUp' || event.key === 'k') focusBeside(event, -1)
  }
  return (
    <div
      className={`tm-grid tm-compare tm-row${selected ? ' selected' : ''}`}
      role="row"
      tabIndex={0}
      aria-selected={selected}
      onClick={() => (isFolder ? undefined : act())}
      onDoubleClick={act}
      onKeyDown={keys}
    >
      <span role="gridcell" className="tm-name">
        <Icon name={isFolder ? 'folder' : 'file'} />
        {isFolder ? (
          <button type="button" className="tm-open" tabIndex={-1} onClick={() => onOpen(group)}>
            {group.name}
          </button>
        ) : (
          <span>{group.name}</span>
        )}
      </span>
      <span role="gridcell" className="soft">
        {isFolder ? inWords(group) : <span className={`tag ${word(group)}`}>{word(group)}</span>}
      </span>
      <span role="gridcell" className="right number soft">
        {group.bytes_net === null || group.bytes_net === 0 ? '' : signed(group.bytes_net)}
      </span>
      <span role="gridcell" className="wide-only">
        {lane && <LaneView lane={lane} archives={archives} part={part} step={to} versus={from} />}
      </span>
    </div>
  )
}
