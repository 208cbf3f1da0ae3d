import { QueryClient, QueryClientProvider } from '@tanstack/react-query'
import { RouterProvider } from '@tanstack/react-router'
import { StrictMode, useEffect, useState } from 'react'
import { createRoot } from 'react-dom/client'
import { Refused } from './api/client'
import * as session from './api/session'
import { follow } from './api/stream'
import { Join, Login, OwnPassword } from './features/access/Login'
import { router } from './routes'
import './styles/base.css'
import './styles/layout.css'
import './styles/pages.css'
import './styles/files.css'

const client = new QueryClient({
  defaultOptions: {
    queries: {
      // Events report most changes; no query is repeated automatically. A page that is opened again asks again.
      staleTime: 1_000,
      refetchOnWindowFocus: false,
      retry: (failures, error) =>
        failures < 2 && !(error instanceof Refused && error.status < 500 && error.status !== 423),
      retryDelay: (attempt, error) =>
        error instanceof Refused && error.retryAfter ? error.retryAfter * 1000 : 1000 * 2 ** attempt,
    },
  },
})

window.dispatchEvent(new Event('holdfast-loaded'))

/** The token of an invitation, if the address is that of one. */
const invitation = () => (location.pathname === '/join' && location.hash.length > 1 ? location.hash.slice(1) : null)

function App() {
  const state = session.useSession()
  const [token, setToken] = useState(invitation)
  useEffect(() => {
    if (session.current().name === 'unknown') void session.renew()
  }, [])
  const inside = state.name === 'in' && !state.mustChangePassword
  useEffect(() => {
    if (!inside) return
    const stop = follow(client)
    return () => {
      stop()
      client.clear()
    }
  }, [inside])
  if (token !== null) {
    const done = () => {
      void router.navigate({ to: '/', replace: true })
      setToken(null)
    }
    return <Join token={token} onDone={done} />
  }
  if (state.name === 'unknown') return <p className="connecting">Connecting…</p>
  if (state.name === 'out') return <Login />
  if (state.mustChangePassword) return <OwnPassword />
  return <RouterProvider router={router} />
}

createRoot(document.getElementById('root') as HTMLElement).render(
  <StrictMode>
    <QueryClientProvider client={client}>
      <App />
    </QueryClientProvider>
  </StrictMode>,
)
