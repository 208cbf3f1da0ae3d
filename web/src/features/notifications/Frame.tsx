import { Outlet } from '@tanstack/react-router'
import { useMe } from '../../layout/Shell'
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
  return (
    <main>
      <h1 className="title">{admin || !me ? 'Notifications' : 'Alarms'}</h1>
      {admin && <Tabs label="Notifications" items={TABS} />}
      <Outlet />
    </main>
  )
}
