import { Link, Outlet, useRouterState } from '@tanstack/react-router'
import { useMe } from '../../layout/Shell'
import { Note } from '../../ui/States'
import { Tabs } from '../../ui/Tabs'

const TABS = [
  ['/notifications', 'Channels'],
  ['/notifications/rules', 'Rules'],
  ['/notifications/reports', 'Reports'],
  ['/notifications/deliveries', 'Deliveries'],
  ['/notifications/alarms', 'Alarms'],
] as const

/** Notifications: all users see alarms, only admins see the rest. */
export function NotificationsFrame() {
  const { data: me } = useMe()
  const admin = me?.role === 'admin'
  const path = useRouterState({ select: (state) => state.location.pathname })
  const isRefused = me !== undefined && !admin && !path.startsWith('/notifications/alarms')
  return (
    <main>
      <h1 className="title">{admin || !me ? 'Notifications' : 'Alarms'}</h1>
      {admin && <Tabs label="Notifications" items={TABS} />}
      {isRefused ? (
        <Note title="Only admins can see channels, rules, reports and deliveries.">
          You see the{' '}
          <Link to="/notifications/alarms" className="link">
            alarms
          </Link>{' '}
          of repositories shared with you.
        </Note>
      ) : (
        <Outlet />
      )}
    </main>
  )
}
