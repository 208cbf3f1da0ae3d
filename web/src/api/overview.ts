import { useQuery } from '@tanstack/react-query'
import { zone } from '../lib/time'
import { api, data } from './client'
import { keys } from './keys'

/** Whether everything is restorable, what needs the user and what runs: one request for every page that shows a part of it. */
export function useOverview() {
  return useQuery({
    queryKey: keys.overview,
    queryFn: () => data(api.GET('/api/overview', { params: { query: { tz: zone } } })),
  })
}
