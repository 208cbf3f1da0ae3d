export interface Point {
  at: number
  size: number
}
export interface Box {
  from: number
  until: number
  most: number
  width: number
  height: number
}

/** A round size above all points: the top of the picture. */
export function top(points: Point[]): number {
  return Math.max(1, ...points.map((one) => one.size)) * 1.05
}

export function place(at: number, box: Box): number {
  return box.until === box.from ? 0 : ((at - box.from) / (box.until - box.from)) * box.width
}

/** An area of steps: a size holds until the next one is known, and the last one until the end. */
export function steps(points: Point[], box: Box): string {
  const height = (size: number) => box.height - (size / box.most) * box.height
  const first = points[0]
  if (!first) return ''
  const rises = points.map((one) => `H${place(one.at, box).toFixed(1)}V${height(one.size).toFixed(1)}`)
  return `M${place(first.at, box).toFixed(1)},${box.height}${rises.join('')}H${box.width}V${box.height}Z`
}
