import type { Schemas } from '../api/client'
import type { GlyphName } from '../ui/Glyph'

const KINDS: Record<string, string> = {
  backup: 'Backup',
  restore: 'Restore',
  check: 'Check',
  prune: 'Prune',
  compact: 'Compact',
  restore_check: 'Restore check',
  sync: 'Mirror sync',
  hydrate: 'Hydrate from mirror',
  archives: 'Archive list',
  stats: 'Sizes',
  history: 'File index',
  delete_archive: 'Delete archive',
  undelete_archive: 'Undelete archive',
  wipe: 'Wipe',
  init: 'Create repository',
  import: 'Import repository',
  break_lock: 'Break lock',
  package_install: 'Install package',
}

export const kindWord = (kind: string) => KINDS[kind] ?? capital(kind.replaceAll('_', ' '))
export const capital = (text: string) => text.charAt(0).toUpperCase() + text.slice(1)

export const STATUS: Record<string, { glyph: GlyphName; word: string }> = {
  pending: { glyph: 'wait', word: 'waits' },
  running: { glyph: 'run', word: 'running' },
  completed: { glyph: 'ok', word: 'completed' },
  completed_with_warnings: { glyph: 'warn', word: 'completed with warnings' },
  failed: { glyph: 'bad', word: 'failed' },
  cancelled: { glyph: 'unknown', word: 'cancelled' },
  skipped: { glyph: 'unknown', word: 'skipped' },
}
export const statusOf = (status: string) => STATUS[status] ?? { glyph: 'unknown' as const, word: status }

const WAITS: Record<string, string> = {
  lane: 'waits for the previous job',
  limit: 'waits for a free slot',
  dependency: 'waits for the previous step',
  agent_offline: 'runs once the machine is online',
  paused: 'follow-ups are paused',
  agent_unsupported: 'the agent cannot do this; update it',
}

export function waitWord(operation: Pick<Schemas['OperationItem'], 'queued_reason' | 'queued_behind_id'>): string {
  const words =
    WAITS[operation.queued_reason ?? ''] ??
    (operation.queued_reason ? operation.queued_reason.replaceAll('_', ' ') : 'starts next')
  return operation.queued_behind_id ? `waits for #${operation.queued_behind_id}` : words
}

export const VERDICT: Record<string, { glyph: GlyphName; word: string }> = {
  proven: { glyph: 'ok', word: 'proven' },
  unproven: { glyph: 'warn', word: 'unproven' },
  at_risk: { glyph: 'warn', word: 'at risk' },
  broken: { glyph: 'bad', word: 'broken' },
  unknown: { glyph: 'unknown', word: 'unknown' },
}

const REFUSALS: Record<string, string> = {
  'access.forbidden': 'Your role does not allow this. Ask an admin.',
  'repository.observe_only': 'This repository is only observed; nothing here changes it.',
  'repository.not_set_up': 'The agent could not set the repository up yet.',
  'archives.protected': 'The archive is protected. Remove its protection first.',
  'agents.revoked': 'The agent of this repository is disabled or removed.',
}

/** Why an act is not offered. */
export const refusalWord = (key: string): string => REFUSALS[key] ?? `Not possible now (${key}).`
