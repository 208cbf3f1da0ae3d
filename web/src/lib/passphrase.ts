const BEGIN = 'bdfghjklmnprstvz'
const VOWEL = 'aeio'
const END = 'klmnprst'

/** Six words that can be said and typed, made in the browser: 15 bits each, 90 in all. */
export function generated(): string {
  const random = crypto.getRandomValues(new Uint8Array(30))
  return Array.from({ length: 6 }, (_, index) => word(random.subarray(index * 5, index * 5 + 5))).join('-')
}

function word(random: Uint8Array): string {
  const pick = (letters: string, byte = 0) => letters[byte % letters.length]
  const [a, b, c, d, e] = random
  return [pick(BEGIN, a), pick(VOWEL, b), pick(BEGIN, c), pick(VOWEL, d), pick(END, e)].join('')
}

/** Two different places, for a question about the words that the user has written down. */
export function twoOf(length: number): [number, number] {
  const [one = 0, other = 0] = crypto.getRandomValues(new Uint8Array(2))
  const first = one % length
  const second = (first + 1 + (other % (length - 1))) % length
  return first < second ? [first, second] : [second, first]
}
