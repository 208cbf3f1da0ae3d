export interface DiffLine {
  kind: '+' | '-' | ' '
  text: string
}

const MOST = 4000
const AROUND = 3

/** The lines that differ, each with a few of its neighbours. */
export function changed(before: string, after: string): DiffLine[] {
  return around(compared(before.split('\n').slice(0, MOST), after.split('\n').slice(0, MOST)))
}

function compared(left: string[], right: string[]): DiffLine[] {
  let start = 0
  while (start < left.length && start < right.length && left[start] === right[start]) start += 1
  let end = 0
  while (
    end < left.length - start &&
    end < right.length - start &&
    left[left.length - 1 - end] === right[right.length - 1 - end]
  )
    end += 1
  const same = (lines: string[]): DiffLine[] => lines.map((text) => ({ kind: ' ', text }))
  return [
    ...same(left.slice(0, start)),
    ...middle(left.slice(start, left.length - end), right.slice(start, right.length - end)),
    ...same(left.slice(left.length - end)),
  ]
}

/** By the longest common subsequence; beyond a bound, all of one and all of the other. */
function middle(left: string[], right: string[]): DiffLine[] {
  if (left.length * right.length > 4_000_000)
    return [
      ...left.map((text) => ({ kind: '-' as const, text })),
      ...right.map((text) => ({ kind: '+' as const, text })),
    ]
  const width = right.length + 1
  const table = new Uint32Array((left.length + 1) * width)
  for (let row = left.length - 1; row >= 0; row -= 1)
    for (let column = right.length - 1; column >= 0; column -= 1)
      table[row * width + column] =
        left[row] === right[column]
          ? (table[(row + 1) * width + column + 1] as number) + 1
          : Math.max(table[(row + 1) * width + column] as number, table[row * width + column + 1] as number)
  const lines: DiffLine[] = []
  let row = 0
  let column = 0
  while (row < left.length || column < right.length) {
    if (row < left.length && column < right.length && left[row] === right[column]) {
      lines.push({ kind: ' ', text: left[row] as string })
      row += 1
      column += 1
    } else if (
      column >= right.length ||
      (row < left.length &&
        (table[(row + 1) * width + column] as number) >= (table[row * width + column + 1] as number))
    ) {
      lines.push({ kind: '-', text: left[row] as string })
      row += 1
    } else {
      lines.push({ kind: '+', text: right[column] as string })
      column += 1
    }
  }
  return lines
}

function around(lines: DiffLine[]): DiffLine[] {
  const near = lines.map((_, index) =>
    lines.slice(Math.max(0, index - AROUND), index + AROUND + 1).some((line) => line.kind !== ' '),
  )
  return lines.filter((_, index) => near[index])
}
