import { useQuery } from '@tanstack/react-query'
import { api, data, type Schemas } from '../../api/client'
import { keys } from '../../api/keys'
import { counted } from '../../lib/numbers'
import { clockTime, zone } from '../../lib/time'
import { statusOf } from '../../lib/words'
import { useNow } from '../../ui/Age'
import { Glyph, type GlyphName } from '../../ui/Glyph'
import { Loaded, Note } from '../../ui/States'

type Entry = Schemas['CalendarEntry']
const DAY = 86_400_000
const SHOWN = 6
const weekday = new Intl.DateTimeFormat('en-GB', { weekday: 'short', day: 'numeric', month: 'short' })

/** Midnight at the beginning of this week, here. */
export function monday(now: number): Date {
  const date = new Date(now)
  date.setHours(0, 0, 0, 0)
  date.setDate(date.getDate() - ((date.getDay() + 6) % 7))
  return date
}

export function dayKey(at: Date): string {
  return `${at.getFullYear()}-${at.getMonth() + 1}-${at.getDate()}`
}

/** Two weeks: what ran, and what will. */
export function Calendar() {
  const now = useNow()
  const first = monday(now)
  const days = Array.from({ length: 14 }, (_, index) => {
    const day = new Date(first)
    day.setDate(day.getDate() + index)
    return day
  })
  const end = new Date((days[13] as Date).getTime() + DAY + 3_600_000)
  const query = useQuery({
    queryKey: keys.planned(`fortnight ${dayKey(first)}`),
    queryFn: () =>
      data(
        api.GET('/api/schedules/calendar', {
          params: { query: { since: first.toISOString(), until: end.toISOString() } },
        }),
      ),
  })
  return (
    <Loaded query={query} height={320}>
      {(found) => (
        <>
          {found.paused && (
            <div className="gap">
              <Note warn title="All schedules are paused.">
                No scheduled work starts until they are resumed.
              </Note>
            </div>
          )}
          <div className="calendar" role="list" aria-label={`Two weeks, times in ${zone}`}>
            {days.map((day) => (
              <Day
                key={dayKey(day)}
                day={day}
                today={dayKey(day) === dayKey(new Date(now))}
                entries={found.entries.filter((one) => dayKey(new Date(one.due_at)) === dayKey(day))}
              />
            ))}
          </div>
          {found.truncated && <p className="muted more">There is more than fits here; the list shows each schedule.</p>}
        </>
      )}
    </Loaded>
  )
}

function Day({ day, today, entries }: { day: Date; today: boolean; entries: Entry[] }) {
  const shown = folded(entries)
  return (
    <div className={today ? 'day today' : 'day'} role="listitem">
      <b>{weekday.format(day)}</b>
      {shown.slice(0, SHOWN).map(({ one, last, times }) => {
        const [glyph, words] = look(one)
        return (
          <span
            key={`${one.schedule_id}:${one.due_at}`}
            className={one.outcome ? 'entry' : 'entry planned'}
            title={`${one.name}, ${words}, ${times > 1 ? `${times} times, ` : ''}${counted(one.target_count, 'repository', 'repositories')}`}
          >
            {glyph && <Glyph name={glyph} />}
            <span className="number">
              {clockTime(one.due_at)}
              {times > 1 && ` to ${clockTime(last)}`}
            </span>{' '}
            <span className="clip">{one.name}</span>
            <span className="visually-hidden">, {words}</span>
          </span>
        )
      })}
      {shown.length > SHOWN && <span className="muted">{shown.length - SHOWN} more</span>}
    </div>
  )
}

/** Many runs of one schedule on one day with one outcome are one line. */
export function folded<T extends Pick<Entry, 'schedule_id' | 'due_at' | 'outcome' | 'result' | 'reason'>>(
  entries: T[],
): { one: T; last: string; times: number }[] {
  const lines = new Map<string, { one: T; last: string; times: number }>()
  for (const one of entries) {
    const key = [one.schedule_id, one.outcome, one.result, one.outcome ? '' : one.reason].join(' ')
    const line = lines.get(key)
    lines.set(key, line ? { ...line, last: one.due_at, times: line.times + 1 } : { one, last: one.due_at, times: 1 })
  }
  return [...lines.values()]
}

function look(entry: Entry): [GlyphName | null, string] {
  if (entry.outcome === 'missed') return ['bad', 'missed']
  if (entry.outcome === 'skipped') return ['unknown', 'skipped']
  if (entry.outcome === 'waiting') return ['wait', 'waits']
  if (entry.outcome === 'ran')
    return entry.result ? [statusOf(entry.result).glyph, statusOf(entry.result).word] : ['run', 'started']
  return entry.reason === 'on_time' ? [null, 'planned'] : ['wait', entry.reason.replaceAll('_', ' ')]
}
