import { useQuery } from '@tanstack/react-query'
import { useMemo } from 'react'
import { api, data } from '../../api/client'
import type { Lane, Lanes } from './model'

const PAGE = 5000
/** Names that a page holds at most; more cannot be read by a person either. */
export const MOST = 200_000

export type Where = { path: string } | { path_b64: string }

export const readLanes = (id: number, where: Where, limit: number, cursor?: string, signal?: AbortSignal) =>
  data(
    api.GET('/api/repositories/{repository_id}/lanes', {
      params: { path: { repository_id: id }, query: { ...where, limit, cursor } },
      signal,
    }),
  )

/** A folder with all its names. The first ones are shown at once, the others when they have all come. */
export function useWhole(id: number, where: Where, first: Lanes): Lanes {
  const newest = first.archives.at(-1)?.id
  const rest = useQuery({
    queryKey: ['folder', id, where, newest, first.archives.length],
    queryFn: async ({ signal }) => {
      const pages: Lanes[] = []
      let cursor = first.next_cursor
      for (let count = first.entries.length; cursor !== null && count < MOST; ) {
        const page = await readLanes(id, where, PAGE, cursor, signal)
        pages.push(page)
        count += page.entries.length
        cursor = page.next_cursor
      }
      return pages
    },
    enabled: first.next_cursor !== null,
    staleTime: Number.POSITIVE_INFINITY, // with these archives, the folder stays what it is
    gcTime: 60_000,
  })
  const pages = rest.data
  return useMemo(() => (pages ? joined(first, pages) : first), [first, pages])
}

export function joined(first: Lanes, others: Lanes[]): Lanes {
  const entries: Lane[] = [...first.entries]
  for (const page of others) for (const lane of page.entries) entries.push(lane)
  const archives = first.archives.map((one, place) => ({
    ...one,
    changed_here: one.changed_here || others.some((page) => page.archives[place]?.changed_here === true),
  }))
  return { ...first, entries, archives, next_cursor: others.at(-1)?.next_cursor ?? null }
}
