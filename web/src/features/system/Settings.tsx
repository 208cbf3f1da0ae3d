import { Outlet } from '@tanstack/react-router'
import { useMe } from '../../layout/Shell'
import { Loaded, Note } from '../../ui/States'
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
  const me = useMe()
  if (!me.data)
    return (
      <main>
        <h1 className="title">Settings</h1>
        <Loaded query={me} height={300}>
          {() => null}
        </Loaded>
      </main>
    )
  if (me.data.role !== 'admin')
    return (
      <main>
        <Note title="Only admins can see the service's settings.">
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
