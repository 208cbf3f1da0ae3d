import { useMutation } from '@tanstack/react-query'
import { useNavigate } from '@tanstack/react-router'
import { api, data } from '../../api/client'
import { refusalWord } from '../../lib/words'
import { Button } from '../../ui/Button'
import { Problem } from '../../ui/States'
import { useRepository, useRepositoryId } from './Repository'
import { Retention } from './Retention'

export function Maintenance() {
  const id = useRepositoryId()
  const repository = useRepository(id).data
  if (!repository) return null
  return (
    <div className="stack">
      <Act
        refusal={repository.refusals.check}
        title="Check"
        words="Reads the repository's structure to find damage before a restore does."
        button="Check now"
        run={() =>
          data(
            api.POST('/api/repositories/{repository_id}/check', { params: { path: { repository_id: id } }, body: {} }),
          )
        }
      />
      <Act
        refusal={repository.refusals.check}
        title="Check every byte"
        words="Reads and verifies all stored data. Takes as long as reading the whole repository."
        button="Verify all data"
        run={() =>
          data(
            api.POST('/api/repositories/{repository_id}/check', {
              params: { path: { repository_id: id } },
              body: { verify_data: true },
            }),
          )
        }
      />
      <Retention repository={repository} />
      <Act
        refusal={repository.refusals.compact}
        title="Compact"
        words="Reclaims the space of pruned and deleted archives."
        button="Compact now"
        run={() =>
          data(
            api.POST('/api/repositories/{repository_id}/compact', {
              params: { path: { repository_id: id } },
              body: {},
            }),
          )
        }
      />
      <Act
        refusal={repository.refusals.resync}
        title="Reload the archive list"
        words="For repositories that other programs also write to."
        button="Resync"
        run={async () => {
          const answer = await data(
            api.POST('/api/repositories/{repository_id}/resync', { params: { path: { repository_id: id } } }),
          )
          return { job_id: answer.operations[0] }
        }}
      />
    </div>
  )
}

function Act({
  refusal,
  title,
  words,
  button,
  run,
}: {
  refusal?: string
  title: string
  words: string
  button: string
  run: () => Promise<{ job_id?: number }>
}) {
  const navigate = useNavigate()
  const start = useMutation({
    mutationFn: run,
    onSuccess: (answer) =>
      answer.job_id && void navigate({ to: '/operations/$id', params: { id: String(answer.job_id) } }),
  })
  return (
    <section className="card pad row">
      <div className="grow">
        <h2>{title}</h2>
        <p className="soft">{words}</p>
        {refusal && <p className="muted">{refusalWord(refusal)}</p>}
        {start.error && <Problem error={start.error} />}
      </div>
      <Button acts disabled={start.isPending || refusal !== undefined} onClick={() => start.mutate()}>
        {button}
      </Button>
    </section>
  )
}
