import { Outlet } from '@tanstack/react-router'
import { useMe } from '../../layout/Shell'
import { Note } from '../../ui/States'
import { Tabs } from '../../ui/Tabs'

const TABS = [
  ['/settings', 'System'],
  ['/settings/users', 'Users'],
  ['/settings/remotes', 'Remotes'],
  ['/settings/packages', 'Packages'],
  ['/settings/audit', 'Audit'],
] as const

/** What is for admins alone. */
export function Settings() {
  const { data: me } = useMe()
  if (me && me.role !== 'admin')
    return (
      <main>
        <Note title="The settings of the service are for admins.">
          Your own password, sessions and tokens are under your name.
        </Note>
      </main>
    )
  return (
    <main>
      <h1 className="title">Settings</h1>
      <Tabs label="Settings" items={TABS} />
      <Outlet />
    </main>
  )
}
