import { Link, useRouterState } from '@tanstack/react-router'

/** Pages of one place, one beside the other. */
export function Tabs({ label, items }: { label: string; items: readonly (readonly [to: string, name: string])[] }) {
  const path = useRouterState({ select: (state) => state.location.pathname })
  return (
    <nav className="tabs" aria-label={label}>
      {items.map(([to, name]) => (
        <Link key={to} to={to} activeOptions={{ exact: true }} aria-current={path === to ? 'page' : undefined}>
          {name}
        </Link>
      ))}
    </nav>
  )
}
