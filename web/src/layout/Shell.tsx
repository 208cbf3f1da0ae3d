import { useQuery } from '@tanstack/react-query'
import { Link, Outlet, useRouterState } from '@tanstack/react-router'
import { memo, type ReactNode, useEffect, useState } from 'react'
import { api, data } from '../api/client'
import { keys } from '../api/keys'
import { useOverview } from '../api/overview'
import { connectNow, useLive } from '../api/stream'
import { clockTime } from '../lib/time'
import { Icon, type IconName, Logo } from '../ui/Icon'
import { Palette } from './Palette'

interface Place {
  to: string
  name: string
  icon: IconName
  count?: number
}

export function useMe() {
  return useQuery({ queryKey: keys.me, queryFn: () => data(api.GET('/api/auth/me')), staleTime: 60_000 })
}

/** The pages that the user may open. */
function usePlaces(): Place[] {
  const { data: me } = useMe()
  const { data: overview } = useOverview()
  const total = overview ? Object.values(overview.counts).reduce((sum, value) => sum + value, 0) : undefined
  const active = overview ? overview.running.length + overview.waiting.length : undefined
  return [
    { to: '/', name: 'Overview', icon: 'home' },
    { to: '/files', name: 'Files', icon: 'files' },
    { to: '/repositories', name: 'Repositories', icon: 'repository', count: total },
    ...(me?.role === 'admin' ? [{ to: '/machines', name: 'Machines', icon: 'machine' as const }] : []),
    { to: '/queue', name: 'Queue', icon: 'queue', count: active || undefined },
    { to: '/activity', name: 'Activity', icon: 'activity' },
    { to: '/schedules', name: 'Schedules', icon: 'calendar' },
    me?.role === 'admin'
      ? { to: '/notifications', name: 'Notifications', icon: 'bell' }
      : { to: '/notifications/alarms', name: 'Alarms', icon: 'bell' },
  ]
}

export function Shell() {
  return (
    <Frame>
      <Side />
      <Page>
        <header className="top">
          <Finding />
          <LiveState />
        </header>
        <OfflineBar />
        <Outlet />
      </Page>
      <Bottom />
    </Frame>
  )
}

// The parts follow the address, the page that is shown and the counts each on their own: an act renders little.

const useShownPath = () => useRouterState({ select: (state) => state.resolvedLocation?.pathname })
const useAddressedPath = () => useRouterState({ select: (state) => state.location.pathname })

function Frame({ children }: { children: ReactNode }) {
  return <div className={useShownPath()?.startsWith('/files/') ? 'app rail' : 'app'}>{children}</div>
}

function Page({ children }: { children: ReactNode }) {
  const shown = useShownPath()
  return (
    <div aria-busy={shown !== useAddressedPath()} data-page={shown}>
      {children}
    </div>
  )
}

function Side() {
  const { data: me } = useMe()
  const path = useAddressedPath()
  return (
    <nav className="side" aria-label="Main">
      <Link to="/" className="brand" aria-label="Holdfast, overview">
        <Logo />
        <span>Holdfast</span>
      </Link>
      {usePlaces().map((place) => (
        <Entry key={place.to} place={place} path={path} />
      ))}
      <div className="grow" />
      {me?.role === 'admin' && <Entry place={{ to: '/settings', name: 'Settings', icon: 'settings' }} path={path} />}
      <Entry place={{ to: '/account', name: me?.username ?? 'Account', icon: 'user' }} path={path} />
    </nav>
  )
}

/** The five places of a small screen. */
const SMALL = ['/', '/files', '/repositories', '/activity']

function Bottom() {
  const path = useAddressedPath()
  const places = usePlaces().filter((place) => SMALL.includes(place.to))
  return (
    <nav className="bottom" aria-label="Main, small">
      {[...places, { to: '/account', name: 'Account', icon: 'user' as const }].map((place) => (
        <Entry key={place.to} place={place} path={path} />
      ))}
    </nav>
  )
}

/** The field that opens the palette; so do Ctrl K and a slash. */
function Finding() {
  const [open, setOpen] = useState(false)
  useShortcuts(setOpen)
  return (
    <>
      <button type="button" className="command-field" onClick={() => setOpen(true)}>
        <Icon name="search" />
        <span>Search every file, machine, repository…</span>
        <kbd>Ctrl K</kbd>
      </button>
      {open && <FoundPlaces onClose={() => setOpen(false)} />}
    </>
  )
}

const FoundPlaces = ({ onClose }: { onClose: () => void }) => <Palette places={usePlaces()} onClose={onClose} />

function Entry({ place, path }: { place: Place; path: string }) {
  const current = place.to === '/' ? path === '/' : path === place.to || path.startsWith(`${place.to}/`)
  return <PlaceLink {...place} current={current} />
}

const PlaceLink = memo(({ to, name, icon, count, current }: Place & { current: boolean }) => (
  <Link to={to} aria-current={current ? 'page' : undefined} title={name}>
    <Icon name={icon} />
    <span>{name}</span>
    {count !== undefined && <b className="number">{count}</b>}
  </Link>
))

function LiveState() {
  const live = useLive()
  return (
    <div className="live" role="status">
      <span className={live.connected ? 'dot' : 'dot off'} />
      {live.connected ? 'Live' : 'Not connected'}
    </div>
  )
}

function OfflineBar() {
  const live = useLive()
  const isLeft = useShownPath() !== useAddressedPath()
  if (!live.away) return null
  return (
    <div className="offline" role="alert">
      Disconnected since {clockTime(new Date(live.since).toISOString())}. This page shows the state of that time and
      reconnects automatically; until then nothing can be changed here.
      {isLeft && ' The page you chose will open then.'}{' '}
      <button type="button" className="link" onClick={connectNow}>
        Connect now
      </button>
    </div>
  )
}

const GOES: Record<string, string> = {
  o: '/',
  f: '/files',
  r: '/repositories',
  m: '/machines',
  q: '/queue',
  a: '/activity',
  s: '/schedules',
  n: '/notifications/alarms',
}

function useShortcuts(setOpen: (open: true) => void): void {
  useEffect(() => {
    let goes = false
    const press = (event: KeyboardEvent) => {
      const typing = event.target instanceof HTMLElement && event.target.closest('input, textarea, select, dialog')
      if ((event.ctrlKey || event.metaKey) && event.key.toLowerCase() === 'k') {
        event.preventDefault()
        setOpen(true)
        return
      }
      if (typing || event.ctrlKey || event.metaKey || event.altKey) return
      if (event.key === '/') {
        event.preventDefault()
        setOpen(true)
      } else if (goes && GOES[event.key]) {
        window.dispatchEvent(new CustomEvent('holdfast-go', { detail: GOES[event.key] }))
      }
      goes = event.key === 'g'
    }
    window.addEventListener('keydown', press)
    return () => window.removeEventListener('keydown', press)
  }, [setOpen])
}
