import { useQuery } from '@tanstack/react-query'
import { api, data, type Schemas } from '../../api/client'
import { keys } from '../../api/keys'

export type Machine = Schemas['MachineRow']

/** Where folders are: on the service's own machine, or on another one. */
export interface Place {
  target: 'local' | 'ssh' | 'agent'
  machine_id: number | null
  name: string
}

export const HERE: Place = { target: 'local', machine_id: null, name: "the service's machine" }

export function useMachines(enabled = true) {
  return useQuery({ queryKey: keys.machines, queryFn: () => data(api.GET('/api/managed-machines/')), enabled })
}

/** The place of a machine's key, such as `agent:1`; without one, here. */
export function placeOf(machines: Machine[], key: string): Place {
  const found = machines.find((one) => one.key === key)
  if (!found) return HERE
  return { target: found.connection_type as Place['target'], machine_id: found.id, name: found.name }
}

/** The machine whose engine opens a repository. */
export function placeOfRepository(repository: Schemas['RepositoryAnswer']): Place {
  const { execution_target: target, agent_machine_id, ssh_connection_id } = repository
  if (target === 'agent') return { target, machine_id: agent_machine_id, name: 'its machine' }
  if (target === 'ssh') return { target, machine_id: ssh_connection_id, name: 'its machine' }
  return HERE
}

/** The fields of a repository that say which machine opens it. */
export function opener(place: Place) {
  return {
    execution_target: place.target,
    ssh_connection_id: place.target === 'ssh' ? place.machine_id : null,
    agent_machine_id: place.target === 'agent' ? place.machine_id : null,
  }
}

/** The folder in which a path is; `/` for what is no path. */
export const above = (path: string) => (path.startsWith('/') && path.replace(/\/+$/, '').replace(/\/[^/]*$/, '')) || '/'

/** The folders above a path, the outermost first, each with its own path. */
export function crumbs(path: string): { name: string; path: string }[] {
  const parts = path.split('/').filter(Boolean)
  return [
    { name: '/', path: '/' },
    ...parts.map((name, index) => ({ name, path: `/${parts.slice(0, index + 1).join('/')}` })),
  ]
}
