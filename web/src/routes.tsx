import { createRootRoute, createRoute, createRouter, Link, useRouter } from '@tanstack/react-router'
import { useEffect } from 'react'
import type { Search as FilesSearch } from './features/files/times'
import { Overview } from './features/overview/Overview'
import type { AuditSearch } from './features/system/auditFilter'
import { Shell } from './layout/Shell'
import { lazyPage } from './lib/lazyPage'
import { painted } from './lib/painted'

const root = createRootRoute({ component: Root, notFoundComponent: Missing })

function Root() {
  const router = useRouter()
  useEffect(() => {
    const go = (event: Event) => void router.navigate({ to: (event as CustomEvent<string>).detail })
    window.addEventListener('holdfast-go', go)
    return () => window.removeEventListener('holdfast-go', go)
  }, [router])
  return <Shell />
}

function Missing() {
  return (
    <main>
      <div className="note">
        <div>
          <h1>Not found, or not visible to you.</h1>
          <p>
            Page not found.{' '}
            <Link to="/" className="link">
              Back to the overview
            </Link>
          </p>
        </div>
      </div>
    </main>
  )
}

// A search parameter that is a number stays one in the address; invalid ones are left out.
const text = (value: unknown) =>
  typeof value === 'string' && value !== '' ? value : typeof value === 'number' ? String(value) : undefined
const number = (value: unknown) =>
  Number.isInteger(Number(value)) && value !== '' && value !== null && value !== undefined ? Number(value) : undefined

type Params = Record<string, unknown>

const overview = createRoute({ getParentRoute: () => root, path: '/', component: Overview })
const welcome = createRoute({
  getParentRoute: () => root,
  path: '/welcome/{-$step}',
  component: lazyPage(() => import('./features/welcome/Welcome'), 'Welcome'),
})
const repositories = createRoute({
  getParentRoute: () => root,
  path: '/repositories',
  validateSearch: (search: Params): { q?: string; state?: string; sort?: string } => ({
    q: text(search.q),
    state: text(search.state),
    sort: text(search.sort),
  }),
  component: lazyPage(() => import('./features/repositories/Repositories'), 'Repositories'),
})
const creating = createRoute({
  getParentRoute: () => root,
  path: '/repositories/new',
  component: lazyPage(() => import('./features/repositories/CreatePages'), 'New'),
})
const importing = createRoute({
  getParentRoute: () => root,
  path: '/repositories/import',
  component: lazyPage(() => import('./features/repositories/CreatePages'), 'Import'),
})
const repository = createRoute({
  getParentRoute: () => root,
  path: '/repositories/$id',
  component: lazyPage(() => import('./features/repositories/Repository'), 'RepositoryFrame'),
})
const archives = createRoute({
  getParentRoute: () => repository,
  path: '/',
  component: lazyPage(() => import('./features/repositories/Archives'), 'Archives'),
})
const maintenance = createRoute({
  getParentRoute: () => repository,
  path: '/maintenance',
  component: lazyPage(() => import('./features/repositories/Maintenance'), 'Maintenance'),
})
const repositoryActivity = createRoute({
  getParentRoute: () => repository,
  path: '/activity',
  component: lazyPage(() => import('./features/operations/RepositoryActivity'), 'RepositoryActivity'),
})
const mirror = createRoute({
  getParentRoute: () => repository,
  path: '/mirror',
  component: lazyPage(() => import('./features/repositories/Mirror'), 'Mirror'),
})
const repositorySettings = createRoute({
  getParentRoute: () => repository,
  path: '/settings',
  component: lazyPage(() => import('./features/repositories/Settings'), 'RepositorySettings'),
})
const files = createRoute({
  getParentRoute: () => root,
  path: '/files',
  component: lazyPage(() => import('./features/files/Choose'), 'Choose'),
})
const timeMachine = createRoute({
  getParentRoute: () => root,
  path: '/files/$id',
  validateSearch: (search: Params): FilesSearch => ({
    at: number(search.at),
    vs: number(search.vs),
    path: text(search.path),
    pathb64: text(search.pathb64),
    sel: text(search.sel),
    gone: search.gone === false ? false : undefined,
    top: search.top === true ? true : undefined,
    sort: search.sort === 'size' ? 'size' : undefined,
    name: text(search.name),
  }),
  component: lazyPage(() => import('./features/files/TimeMachine'), 'TimeMachine'),
})
const searching = createRoute({
  getParentRoute: () => root,
  path: '/search',
  validateSearch: (search: Params): { q?: string; gone?: boolean; machine?: string } => ({
    q: text(search.q),
    machine: text(search.machine),
    gone: search.gone === true ? true : undefined,
  }),
  component: lazyPage(() => import('./features/files/Search'), 'Search'),
})
const machines = createRoute({
  getParentRoute: () => root,
  path: '/machines',
  component: lazyPage(() => import('./features/machines/Machines'), 'Machines'),
})
const machine = createRoute({
  getParentRoute: () => root,
  path: '/machines/$kind/$id',
  component: lazyPage(() => import('./features/machines/Machine'), 'Machine'),
})
const queue = createRoute({
  getParentRoute: () => root,
  path: '/queue',
  component: lazyPage(() => import('./features/operations/Queue'), 'Queue'),
})
const activity = createRoute({
  getParentRoute: () => root,
  path: '/activity',
  validateSearch: (search: Params): { status?: string; category?: string; repository?: number } => ({
    status: text(search.status),
    category: text(search.category),
    repository: number(search.repository),
  }),
  component: lazyPage(() => import('./features/operations/Activity'), 'Activity'),
})
const operation = createRoute({
  getParentRoute: () => root,
  path: '/operations/$id',
  component: lazyPage(() => import('./features/operations/Operation'), 'Operation'),
})
const schedules = createRoute({
  getParentRoute: () => root,
  path: '/schedules',
  validateSearch: (search: Params): { new?: boolean } => ({ new: search.new === true ? true : undefined }),
  component: lazyPage(() => import('./features/schedules/Schedules'), 'Schedules'),
})
const account = createRoute({
  getParentRoute: () => root,
  path: '/account',
  component: lazyPage(() => import('./features/account/Account'), 'Account'),
})
const settings = createRoute({
  getParentRoute: () => root,
  path: '/settings',
  component: lazyPage(() => import('./features/system/Settings'), 'Settings'),
})
const system = createRoute({
  getParentRoute: () => settings,
  path: '/',
  component: lazyPage(() => import('./features/system/System'), 'System'),
})
const users = createRoute({
  getParentRoute: () => settings,
  path: '/users',
  component: lazyPage(() => import('./features/access/Users'), 'Users'),
})
const user = createRoute({
  getParentRoute: () => settings,
  path: '/users/$user',
  component: lazyPage(() => import('./features/access/User'), 'User'),
})
const remotes = createRoute({
  getParentRoute: () => settings,
  path: '/remotes',
  component: lazyPage(() => import('./features/remotes/Remotes'), 'Remotes'),
})
const packages = createRoute({
  getParentRoute: () => settings,
  path: '/packages',
  component: lazyPage(() => import('./features/packages/Packages'), 'Packages'),
})
const audit = createRoute({
  getParentRoute: () => settings,
  path: '/audit',
  validateSearch: (search: Params): AuditSearch => ({
    actor: text(search.actor),
    action: text(search.action),
    object: text(search.object),
    outcome: text(search.outcome),
    from: text(search.from),
    to: text(search.to),
  }),
  component: lazyPage(() => import('./features/system/Audit'), 'Audit'),
})
const notifications = createRoute({
  getParentRoute: () => root,
  path: '/notifications',
  component: lazyPage(() => import('./features/notifications/Frame'), 'NotificationsFrame'),
})
const channels = createRoute({
  getParentRoute: () => notifications,
  path: '/',
  component: lazyPage(() => import('./features/notifications/Channels'), 'Channels'),
})
const rules = createRoute({
  getParentRoute: () => notifications,
  path: '/rules',
  component: lazyPage(() => import('./features/notifications/Rules'), 'Rules'),
})
const reports = createRoute({
  getParentRoute: () => notifications,
  path: '/reports',
  component: lazyPage(() => import('./features/notifications/Reports'), 'Reports'),
})
const deliveries = createRoute({
  getParentRoute: () => notifications,
  path: '/deliveries',
  component: lazyPage(() => import('./features/notifications/Deliveries'), 'Deliveries'),
})
const alarms = createRoute({
  getParentRoute: () => notifications,
  path: '/alarms',
  component: lazyPage(() => import('./features/notifications/AlarmList'), 'AlarmList'),
})

const tree = root.addChildren([
  overview,
  welcome,
  repositories,
  creating,
  importing,
  repository.addChildren([archives, maintenance, mirror, repositoryActivity, repositorySettings]),
  files,
  timeMachine,
  searching,
  machines,
  machine,
  queue,
  activity,
  operation,
  schedules,
  account,
  settings.addChildren([system, users, user, remotes, packages, audit]),
  notifications.addChildren([channels, rules, reports, deliveries, alarms]),
])

export const router = createRouter({ routeTree: tree, defaultPreload: 'intent', scrollRestoration: true })

// What was pressed is shown first: the address and the marks of links change at once, the page after the next paint.
// Only the page that was chosen last is shown then.
router.startViewTransition = async (show) => {
  if (router.stores.resolvedLocation.get() !== undefined) await painted()
  await show()
}

declare module '@tanstack/react-router' {
  interface Register {
    router: typeof router
  }
}
