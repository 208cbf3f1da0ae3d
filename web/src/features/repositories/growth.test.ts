import { describe, expect, it } from 'vitest'
import { place, steps, top } from './growth'

const box = { from: 0, until: 100, most: 10, width: 200, height: 50 }

describe('growth', () => {
  it('puts times and sizes into the picture', () => {
    expect(place(50, box)).toBe(100)
    expect(place(5, { ...box, from: 5, until: 5 })).toBe(0)
    expect(top([{ at: 0, size: 100 }])).toBe(105)
    expect(top([])).toBeGreaterThan(0)
  })

  it('holds a size until the next one, and the last one until the end', () => {
    const points = [
      { at: 0, size: 5 },
      { at: 50, size: 10 },
    ]
    expect(steps(points, box)).toBe('M0.0,50H0.0V25.0H100.0V0.0H200V50Z')
    expect(steps([], box)).toBe('')
  })
})
