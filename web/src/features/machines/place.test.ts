import { expect, test } from 'vitest'
import { above, crumbs, HERE, type Machine, opener, placeOf } from './place'

const machine = { key: 'agent:3', connection_type: 'agent', id: 3, name: 'web1' } as Machine

test('a machine is found by its key, and the service itself is the place without one', () => {
  expect(placeOf([machine], 'agent:3')).toEqual({ target: 'agent', machine_id: 3, name: 'web1' })
  expect(placeOf([machine], 'ssh:3')).toBe(HERE)
})

test('a repository names the machine that opens it in the field of its kind', () => {
  expect(opener(placeOf([machine], 'agent:3'))).toEqual({
    execution_target: 'agent',
    ssh_connection_id: null,
    agent_machine_id: 3,
  })
  expect(opener(HERE).execution_target).toBe('local')
})

test('a chooser begins in the folder of what was typed', () => {
  expect(['/srv/data', '/srv/data/', '/srv', '/', '', 'srv/x'].map(above)).toEqual(['/srv', '/srv', '/', '/', '/', '/'])
})

test('a path has a step for each folder above it', () => {
  expect(crumbs('/srv/data').map((one) => one.path)).toEqual(['/', '/srv', '/srv/data'])
  expect(crumbs('/').map((one) => one.name)).toEqual(['/'])
})
