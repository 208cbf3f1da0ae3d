import { generated } from '../../lib/passphrase'

/** The answers to the first-run pages so far. They survive a reload, except the passphrase, which is not stored. */
export interface Draft {
  paths: string[]
  excludes: string[]
  name: string
  place: string
  engine: 1 | 2 | null
  passphrase: string
  repository: number | null
  key: string | null
  kept: boolean
  backup: number | null
}

const STORED = 'welcome'

export function begun(): Draft {
  const fresh: Draft = {
    paths: [],
    excludes: ['**/.cache'],
    name: 'first',
    place: '',
    engine: null,
    passphrase: generated(),
    repository: null,
    key: null,
    kept: false,
    backup: null,
  }
  try {
    return { ...fresh, ...JSON.parse(sessionStorage.getItem(STORED) ?? '{}') }
  } catch {
    return fresh
  }
}

export function remember({ passphrase: _passphrase, key: _key, ...rest }: Draft): void {
  sessionStorage.setItem(STORED, JSON.stringify(rest))
}

export const forget = () => sessionStorage.removeItem(STORED)

/** A place for the repository, near what is backed up: people may write to their own home. */
export function suggested(paths: string[], name: string): string {
  const home = paths.map((path) => /^(\/root|\/home\/[^/]+)(\/|$)/.exec(path)?.[1]).find(Boolean)
  return `${home ?? '/srv'}/backups/${name}`
}

/** A repository among its own sources would back itself up. */
export function own(paths: string[], place: string): string[] {
  const inside = paths.some((path) => place === path || place.startsWith(path === '/' ? '/' : `${path}/`))
  return inside ? [`pp:${place}`] : []
}

export const trimmed = (path: string) => path.trim().replace(/(.)\/+$/, '$1')
