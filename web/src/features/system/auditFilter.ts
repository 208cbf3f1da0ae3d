/** The filters of the audit page, as they are in its address. Days are those of the browser's time zone. */
export interface AuditSearch {
  actor?: string
  action?: string
  object?: string
  outcome?: string
  from?: string
  to?: string
}

/** What the service is asked. An object is a kind, or a kind and an id: `repository 3`. */
export function asQuery(search: AuditSearch) {
  const [type, ...id] = (search.object ?? '').trim().split(/\s+/)
  return {
    actor: search.actor || undefined,
    action: search.action || undefined,
    object_type: type || undefined,
    object_id: id.join(' ') || undefined,
    outcome: search.outcome || undefined,
    since: startOfDay(search.from, 0),
    until: startOfDay(search.to, 1),
  }
}

/** The first moment of a day `2026-11-17`, or of one some days later; nothing for what is not a day. */
export function startOfDay(day: string | undefined, later: number): string | undefined {
  const found = /^(\d{4})-(\d\d)-(\d\d)$/.exec(day ?? '')
  if (!found) return undefined
  const date = new Date(Number(found[1]), Number(found[2]) - 1, Number(found[3]) + later)
  return Number.isNaN(date.getTime()) ? undefined : date.toISOString()
}
