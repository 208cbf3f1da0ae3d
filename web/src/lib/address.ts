import { useMatch, useRouter, useRouterState } from '@tanstack/react-router'
import { useCallback } from 'react'

/**
 * The search parameters that were chosen last. The address has them at once; the page, which `useSearch` describes,
 * follows after the next paint. What shows a choice (a chip, a field, a slider) reads these.
 */
export function useChosen<T extends object>(): T {
  const page = useMatch({ strict: false })
  const chosen: object = useRouterState({
    // While another page is opened, this one shows what it showed.
    select: ({ location }): object => (location.pathname === page.pathname ? location.search : page.search),
  })
  return chosen as T
}

/** Changes some search parameters of this page. The others stay as they were chosen last, even a moment ago. */
export function useChoose<T extends object>(): (next: Partial<T>, replace?: boolean) => void {
  const router = useRouter()
  const { pathname } = useMatch({ strict: false })
  return useCallback(
    (next, replace = true) => {
      // A page that is being left changes the address no more.
      if (router.latestLocation.pathname !== pathname) return
      void router.navigate({ to: '.', search: ((old: T) => ({ ...old, ...next })) as never, replace })
    },
    [router, pathname],
  )
}
