import { beforeEach, expect, test, vi } from 'vitest'
import { early } from './early'

const get = (path: string, method = 'GET') => new Request(`http://service${path}`, { method })

beforeEach(() => {
  const answers = { '/api/overview?tz=UTC': Promise.resolve(new Response('{"early":1}')) }
  vi.stubGlobal('window', { holdfastEarly: { token: 'mine', answers } })
})

test('what was asked for early is given once, to the request that it answers', async () => {
  expect(early(get('/api/overview?tz=Asia%2FTokyo'), 'mine')).toBeUndefined()
  expect(early(get('/api/overview?tz=UTC', 'POST'), 'mine')).toBeUndefined()
  expect(await (await early(get('/api/overview?tz=UTC'), 'mine'))?.json()).toEqual({ early: 1 })
  expect(early(get('/api/overview?tz=UTC'), 'mine')).toBeUndefined()
})

test('another user, or a later session, never gets it', () => {
  expect(early(get('/api/overview?tz=UTC'), 'theirs')).toBeUndefined()
  expect(early(get('/api/overview?tz=UTC'), 'mine')).toBeUndefined()
})
