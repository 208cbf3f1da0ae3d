import { useMutation } from '@tanstack/react-query'
import { useNavigate } from '@tanstack/react-router'
import { api, data, type Schemas } from '../../api/client'
import { Button } from '../../ui/Button'
import { Problem } from '../../ui/States'

export function BackUp({ repository }: { repository: Schemas['RepositoryAnswer'] }) {
  const navigate = useNavigate()
  const start = useMutation({
    mutationFn: () => data(api.POST('/api/backup/start', { body: { repository: repository.path } })),
    onSuccess: (answer) => void navigate({ to: '/operations/$id', params: { id: String(answer.job_id) } }),
  })
  if (!repository.actions.includes('backup')) return null
  return (
    <>
      <Button acts kind="primary" disabled={start.isPending} onClick={() => start.mutate()}>
        Back up
      </Button>
      {start.error && <Problem error={start.error} />}
    </>
  )
}
