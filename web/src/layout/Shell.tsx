import { useQuery } from '@tanstack/react-query'
import { Link, Outlet, useRouterState } from '@tanstack/react-router'
import { useEffect, useState } from 'react'
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

export function Shell() {
  const [open, setOpen] = useState(false)
  const path = useRouterState({ select: (state) => state.location.pathname })
  const shown = useRouterState({ select: (state) => state.resolvedLocation?.pathname })
  const { data: me } = useMe()
  const { data: overview } = useOverview()
  const total = overview ? Object.values(overview.counts).reduce((sum, value) => sum + value, 0) : undefined
  const active = overview ? overview.running.length + overview.waiting.length : undefined
  const places: Place[] = [
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
  useShortcuts(() => setOpen(true))
  const rail = path.startsWith('/files/')
  return (
    <div className={rail ? 'app rail' : 'app'}>
      <nav className="side" aria-label="Main">
        <Link to="/" className="brand" aria-label="Holdfast, overview">
          <Logo />
          <span>Holdfast</span>
        </Link>
        {places.map((place) => (
          <Entry key={place.to} place={place} path={path} />
        ))}
        <div className="grow" />
        {me?.role === 'admin' && <Entry place={{ to: '/settings', name: 'Settings', icon: 'settings' }} path={path} />}
        <Entry place={{ to: '/account', name: me?.username ?? 'Account', icon: 'user' }} path={path} />
      </nav>
      <div aria-busy={shown !== path} data-page={shown}>
        <header className="top">
          <button type="button" className="command-field" onClick={() => setOpen(true)}>
            <Icon name="search" />
            <span>Search every file, machine, repository…</span>
            <kbd>Ctrl K</kbd>
          </button>
          <LiveState />
        </header>
        <OfflineBar />
        <Outlet />
      </div>
      <nav className="bottom" aria-label="Main, small">
        {[
          places[0],
          places[1],
          places[2],
          places.find((place) => place.to === '/activity'),
          { to: '/account', name: 'Account', icon: 'user' as const },
        ].map((place) => place && <Entry key={place.to} place={place} path={path} />)}
      </nav>
      {open && <Palette places={places} onClose={() => setOpen(false)} />}
    </div>
  )
}

function Entry({ place, path }: { place: Place; path: string }) {
  const current = place.to === '/' ? path === '/' : path === place.to || path.startsWith(`${place.to}/`)
  return (
    <Link to={place.to} aria-current={current ? 'page' : undefined} title={place.name}>
      <Icon name={place.icon} />
      <span>{place.name}</span>
      {place.count !== undefined && <b className="number">{place.count}</b>}
    </Link>
  )
}

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
  if (!live.away) return null
  return (
    <div className="offline" role="alert">
      Not connected since {clockTime(new Date(live.since).toISOString())}. This page shows the state of that time and
      reconnects automatically; until then nothing can be changed here.{' '}
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

function useShortcuts(openPalette: () => void): void {
  useEffect(() => {
    let goes = false
    const press = (event: KeyboardEvent) => {
      const typing = event.target instanceof HTMLElement && event.target.closest('input, textarea, select, dialog')
      if ((event.ctrlKey || event.metaKey) && event.key.toLowerCase() === 'k') {
        event.preventDefault()
        openPalette()
        return
      }
      if (typing || event.ctrlKey || event.metaKey || event.altKey) return
      if (event.key === '/') {
        event.preventDefault()
        openPalette()
      } else if (goes && GOES[event.key]) {
        window.dispatchEvent(new CustomEvent('holdfast-go', { detail: GOES[event.key] }))
      }
      goes = event.key === 'g'
    }
    window.addEventListener('keydown', press)
    return () => window.removeEventListener('keydown', press)
  }, [openPalette])
}
