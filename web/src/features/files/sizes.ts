import { useQuery } from '@tanstack/react-query'
import { useEffect, useState } from 'react'
import { api, data } from '../../api/client'
import { keys } from '../../api/keys'
import { at, key, type Lane } from './model'

/** What a folder holds in one archive: all bytes below it, and its direct entries. */
export interface FolderFacts {
  bytes?: number
  items?: number
}

export type FactsByName = ReadonlyMap<string, FolderFacts>

const NONE: FactsByName = new Map()
const SETTLE_MILLISECONDS = 300
const MOST_ENTRIES = 5000

interface Place {
  path: string
  path_b64?: string | null
}

/** Sizes and counts of the folders in a folder. They are requested after the list is shown, and not while time is dragged. */
export function useFolderFacts(
  id: number,
  archive: number | undefined,
  place: Place,
  hasFolders: boolean,
): FactsByName {
  const settled = useSettled(archive)
  const where = place.path_b64 ? { path_b64: place.path_b64 } : { path: place.path }
  const query = useQuery({
    queryKey: keys.browse(id, settled ?? 0, key(place)),
    queryFn: async () => {
      const params = {
        path: { repository_id: id, archive_id: settled ?? 0 },
        query: { ...where, sizes: true, limit: MOST_ENTRIES },
      }
      const page = await data(api.GET('/api/repositories/{repository_id}/archives/{archive_id}/browse', { params }))
      const folders = page.entries.filter((entry) => entry.type === 'd')
      return new Map(folders.map((entry) => [key(entry), factsOf(entry)]))
    },
    enabled: hasFolders && settled !== undefined && settled === archive,
    staleTime: Number.POSITIVE_INFINITY, // an archive does not change
  })
  return settled === archive ? (query.data ?? NONE) : NONE
}

function factsOf(entry: { subtree_size?: number | null; item_count?: number | null }): FolderFacts {
  return { bytes: entry.subtree_size ?? undefined, items: entry.item_count ?? undefined }
}

function useSettled<T>(value: T): T | undefined {
  const [settled, setSettled] = useState<T>()
  useEffect(() => {
    const timer = window.setTimeout(() => setSettled(value), SETTLE_MILLISECONDS)
    return () => window.clearTimeout(timer)
  }, [value])
  return settled
}

export function sizeAt(lane: Lane, step: number, archives: number, facts: FactsByName): number | null {
  const here = at(lane, step, archives)
  return here.state === 'here' ? (facts.get(key(lane))?.bytes ?? here.piece.size ?? null) : null
}

/** Largest first; names without a known size keep their order at the end. */
export function bySize(lanes: Lane[], step: number, archives: number, facts: FactsByName): Lane[] {
  const size = (lane: Lane) => sizeAt(lane, step, archives, facts) ?? -1
  return [...lanes].sort((one, other) => size(other) - size(one))
}
