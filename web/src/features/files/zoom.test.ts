import { expect, test } from 'vitest'
import { holding, newest, zoomed } from './zoom'

test('up to 200 archives are shown whole, of more the newest 200', () => {
  expect(newest(49)).toEqual({ first: 0, count: 49 })
  expect(newest(200)).toEqual({ first: 0, count: 200 })
  expect(newest(300)).toEqual({ first: 100, count: 200 })
})

test('a step inside the part moves nothing, a step outside moves the part around it', () => {
  const part = newest(300)
  expect(holding(part, 300, 100, 100)).toBe(part)
  expect(holding(part, 300, 99, 99)).toEqual({ first: 0, count: 200 })
  expect(holding({ first: 0, count: 50 }, 300, 50, 50)).toEqual({ first: 26, count: 50 })
  expect(holding({ first: 0, count: 50 }, 300, 299, 299)).toEqual({ first: 250, count: 50 })
})

test('a comparison of two distant times is shown as wide as they are apart', () => {
  expect(holding(newest(300), 300, 10, 290)).toEqual({ first: 10, count: 281 })
  expect(holding({ first: 250, count: 50 }, 300, 100, 120)).toEqual({ first: 86, count: 50 })
})

test('archives that were removed leave a part that exists', () => {
  expect(holding({ first: 100, count: 200 }, 250, 249, 249)).toEqual({ first: 50, count: 200 })
  expect(holding({ first: 100, count: 200 }, 40, 0, 0)).toEqual({ first: 0, count: 40 })
})

test('zooming keeps the step where it is on the screen, between 25 archives and all', () => {
  expect(zoomed({ first: 100, count: 200 }, 300, 200, 'in')).toEqual({ first: 150, count: 100 })
  expect(zoomed({ first: 100, count: 200 }, 300, 299, 'in')).toEqual({ first: 200, count: 100 })
  expect(zoomed({ first: 0, count: 30 }, 300, 0, 'in')).toEqual({ first: 0, count: 25 })
  expect(zoomed({ first: 100, count: 200 }, 300, 200, 'out')).toEqual({ first: 0, count: 300 })
})
