import { Link, useRouterState } from '@tanstack/react-router'
import { useEffect, useRef } from 'react'

/** Pages of one place, one beside the other. */
export function Tabs({ label, items }: { label: string; items: readonly (readonly [to: string, name: string])[] }) {
  const path = useRouterState({ select: (state) => state.location.pathname })
  const row = useRef<HTMLElement>(null)
  // On a narrow screen the row is scrolled: the current one must be seen.
  // biome-ignore lint/correctness/useExhaustiveDependencies: another page, another current one
  useEffect(() => {
    const current = row.current?.querySelector<HTMLElement>('[aria-current]')
    if (row.current && current)
      row.current.scrollLeft =
        current.offsetLeft - row.current.offsetLeft - (row.current.clientWidth - current.clientWidth) / 2
  }, [path])
  return (
    <nav className="tabs" aria-label={label} ref={row}>
      {items.map(([to, name]) => (
        <Link
          key={to}
          to={to}
          activeOptions={{ exact: true }}
          aria-current={path === to || (path.startsWith(`${to}/`) && to !== items[0]?.[0]) ? 'page' : undefined}
        >
          {name}
        </Link>
      ))}
    </nav>
  )
}
