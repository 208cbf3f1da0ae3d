export const KIND: Record<string, string> = {
  webhook: 'webhook',
  smtp: 'mail',
  apprise: 'Apprise',
  ping: 'ping',
}

export const SEVERITY: Record<string, string> = {
  info: 'everything, including successes',
  warning: 'warnings and failures',
  critical: 'failures only',
}

interface Rule {
  events: string[]
  least_severity: string
  send: string
  remind_hours: number
  destination_ids: number[] | null
  quiet: Record<string, unknown> | null
}

/** A rule as a sentence. */
export function sentence(rule: Rule, channels: { id: number; name: string }[]): string {
  const what = rule.events.length ? rule.events.join(', ') : SEVERITY[rule.least_severity]
  const names = rule.destination_ids?.map((id) => channels.find((one) => one.id === id)?.name ?? `#${id}`)
  const where = names ? names.join(', ') || 'no channel' : 'every channel'
  const how = rule.send === 'every' ? 'every time' : 'when it starts, changes or ends'
  const remind =
    rule.send === 'change' && rule.remind_hours ? `, with a reminder every ${hours(rule.remind_hours)}` : ''
  const quiet = rule.quiet ? `, but not between ${rule.quiet.from} and ${rule.quiet.to} unless critical` : ''
  return `Sends ${what} to ${where} ${how}${remind}${quiet}.`
}

const hours = (value: number) => (value === 24 ? 'day' : value === 1 ? 'hour' : `${value} hours`)
