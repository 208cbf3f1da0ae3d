import { useQuery } from '@tanstack/react-query'
import { keys } from '../api/keys'

/** What is safe and what to do about the error of a failed operation, from the same table as the documentation. */
export function Advice({ error }: { error: string | null }) {
  const { data } = useQuery({
    queryKey: keys.advice,
    queryFn: async (): Promise<Record<string, string>> => (await import('../api/advice.json')).default,
    enabled: error !== null,
    staleTime: Number.POSITIVE_INFINITY,
  })
  const advice = error && data?.[error]
  return advice || null
}
