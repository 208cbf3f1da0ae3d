import { lazyRouteComponent } from '@tanstack/react-router'

type Module = Record<string, unknown>

/** A page whose script is fetched when it is first opened, and waited for while the service is away. */
export function lazyPage<T extends Module, K extends keyof T>(load: () => Promise<T>, name: K) {
  return lazyRouteComponent<T, K>(() => patient(load), name)
}

const LONGEST_WAIT = 8000

async function patient<T>(load: () => Promise<T>): Promise<T> {
  for (let wait = 1000; ; wait = Math.min(wait * 2, LONGEST_WAIT)) {
    try {
      return await load()
    } catch (error) {
      // A service that answers has no such script because it was upgraded; the router then loads the page again.
      // While it is away that would only leave the browser's own error page.
      if (await answers()) throw error
      await new Promise((done) => setTimeout(done, wait))
    }
  }
}

const answers = () =>
  fetch('/health/live').then(
    (answer) => answer.ok,
    () => false,
  )
