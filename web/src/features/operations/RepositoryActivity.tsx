import { useQuery } from '@tanstack/react-query'
import { useParams } from '@tanstack/react-router'
import { api, data } from '../../api/client'
import { keys } from '../../api/keys'
import { Empty, Loaded } from '../../ui/States'
import { OperationTable } from './Activity'

export function RepositoryActivity() {
  const id = Number((useParams({ strict: false }) as { id: string }).id)
  const filter = { repository_id: id, limit: 100 }
  const query = useQuery({
    queryKey: keys.operations(filter),
    queryFn: () => data(api.GET('/api/operations/', { params: { query: filter } })),
  })
  return (
    <Loaded query={query} height={300}>
      {(page) =>
        page.items.length ? <OperationTable items={page.items} /> : <Empty>Nothing has happened here yet.</Empty>
      }
    </Loaded>
  )
}
