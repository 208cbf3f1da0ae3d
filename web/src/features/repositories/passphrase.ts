const LETTERS = 'abcdefghijkmnpqrstuvwxyz23456789'

/** Six groups of four letters that are hard to misread: 120 bits, made in the browser. */
export function generated(): string {
  const random = crypto.getRandomValues(new Uint8Array(24))
  const letters = [...random].map((byte) => LETTERS[byte % LETTERS.length])
  return Array.from({ length: 6 }, (_, group) => letters.slice(group * 4, group * 4 + 4).join('')).join('-')
}
