import type { Schemas } from '../../api/client'

export type Lanes = Schemas['Lanes']
export type Lane = Schemas['Lane']
export type Piece = Schemas['LanePiece']

/** What a name of the folder is at one archive. */
export type Here =
  | { state: 'here'; piece: Piece; changed: boolean; goneAt: number | null }
  | { state: 'absent'; last: Piece | null; next: Piece | null }

export function at(lane: Lane, step: number, archives: number): Here {
  const piece = lane.pieces.find((one) => one.first <= step && step <= one.last)
  if (piece) {
    const later = lane.pieces.find((one) => one.first === piece.last + 1)
    const final = lane.pieces.at(-1)
    const goneAt = !later && final === piece && piece.last < archives - 1 ? piece.last + 1 : null
    return { state: 'here', piece, changed: piece.first === step && step > 0, goneAt }
  }
  const before = lane.pieces.filter((one) => one.last < step).at(-1) ?? null
  return { state: 'absent', last: before, next: lane.pieces.find((one) => one.first > step) ?? null }
}

/** The nearest archive before or after, in which something of this folder changed. */
export function changeBeside(archives: Lanes['archives'], step: number, direction: -1 | 1): number | null {
  for (let place = step + direction; place >= 0 && place < archives.length; place += direction) {
    if (direction === -1 ? archives[place + 1]?.changed_here : archives[place]?.changed_here) return place
  }
  return null
}

/** Names as people read them: folders first, then by letters, numbers by value. */
const byName = new Intl.Collator('en', { numeric: true, sensitivity: 'base' })
export function ordered(lanes: Lane[]): Lane[] {
  return [...lanes].sort((one, other) => {
    const folders = Number(other.type === 'd') - Number(one.type === 'd')
    return folders || byName.compare(one.name, other.name)
  })
}

/** The names with a text in them, in upper or lower case. */
export function named(lanes: Lane[], text: string): Lane[] {
  const wanted = text.trim().toLowerCase()
  return wanted === '' ? lanes : lanes.filter((lane) => lane.name.toLowerCase().includes(wanted))
}

export const key = (lane: { path: string; path_b64?: string | null }) => lane.path_b64 ?? lane.path
