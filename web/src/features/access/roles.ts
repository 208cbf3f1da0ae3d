import type { Schemas } from '../../api/client'

type Role = Schemas['UserAnswer']['role']

export const ROLES: readonly [Role, string][] = [
  ['viewer', 'looks at repositories that are shared with them'],
  ['operator', 'also backs up, restores, checks and prunes them'],
  ['admin', 'does everything, in every repository'],
]

const RANK: Record<Role, number> = { viewer: 0, operator: 1, admin: 2 }

/** The rights that a change of role adds and removes, as text. */
export function difference(from: Role, to: Role): string {
  if (from === to) return ''
  const gains = RANK[to] > RANK[from]
  const [low, high] = gains ? [from, to] : [to, from]
  const parts = [
    low === 'viewer' ? 'start backups, restores and maintenance' : '',
    high === 'admin' ? 'manage users, machines and settings, and see every repository' : '',
  ].filter(Boolean)
  return `${gains ? 'Will be able to' : 'Will no longer'} ${parts.join('; ')}.`
}
