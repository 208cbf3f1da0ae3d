import { expect, test } from 'vitest'
import { once } from './once'

const post = (path: string, body = '{"a":1}') => new Request(`http://service${path}`, { method: 'POST', body })
const lost = () => Promise.reject(new TypeError('network'))

test('an act whose answer was lost is asked for again with the same key', async () => {
  const keys: (string | null)[] = []
  const answer = await once(
    post('/api/backup/start'),
    (request) => {
      keys.push(request.headers.get('Idempotency-Key'))
      return keys.length < 3 ? lost() : Promise.resolve(new Response('{}'))
    },
    [0, 0, 0],
  )
  expect(answer.ok).toBe(true)
  expect(keys.length).toBe(3)
  expect(new Set(keys).size).toBe(1)
  expect(keys[0]).toMatch(/^[0-9a-f]{32}$/)
})

test('other acts are not repeated by themselves, but done again by hand they have the same key until there is an answer', async () => {
  const keys: (string | null)[] = []
  const send = (outcome: () => Promise<Response>) =>
    once(
      post('/api/users'),
      (request) => {
        keys.push(request.headers.get('Idempotency-Key'))
        return outcome()
      },
      [0],
    )
  await expect(send(lost)).rejects.toThrow('network')
  await send(() => Promise.resolve(new Response('{}')))
  await send(() => Promise.resolve(new Response('{}')))
  expect(keys.length).toBe(3)
  expect(keys[0]).toBe(keys[1])
  expect(keys[2]).not.toBe(keys[1])
})

test('reading is never marked as an act', async () => {
  let key: string | null = 'unseen'
  await once(new Request('http://service/api/overview'), (request) => {
    key = request.headers.get('Idempotency-Key')
    return Promise.resolve(new Response('{}'))
  })
  expect(key).toBeNull()
})
