const PATHS = {
  home: 'M4 11 12 4l8 7v8a1 1 0 0 1-1 1h-5v-6h-4v6H5a1 1 0 0 1-1-1z',
  files: 'M12 8v4l3 2M3.5 12a8.5 8.5 0 1 0 2.6-6.1M3.5 4.5V8H7',
  repository:
    'M4 6.5C4 5 7.6 4 12 4s8 1 8 2.5S16.4 9 12 9 4 8 4 6.5zM4 6.5v11C4 19 7.6 20 12 20s8-1 8-2.5v-11M4 12c0 1.5 3.6 2.5 8 2.5s8-1 8-2.5',
  machine: 'M4 5h16v6H4zM4 13h16v6H4zM8 8h.01M8 16h.01',
  queue: 'M4 6h16M4 12h16M4 18h10',
  activity: 'M3 12h4l3-8 4 16 3-8h4',
  calendar: 'M5 6h14v14H5zM5 10h14M9 3v4M15 3v4',
  bell: 'M6 16V11a6 6 0 1 1 12 0v5l2 2H4zM10 21h4',
  settings:
    'M12 9a3 3 0 1 0 0 6 3 3 0 0 0 0-6zM19 12l2-1-1-3-2 .3-1.3-1.6.6-2-3-1.2L13 5.3h-2L9.7 3.5l-3 1.2.6 2L6 8.3 4 8l-1 3 2 1-2 1 1 3 2-.3 1.3 1.6-.6 2 3 1.2 1.3-1.8h2l1.3 1.8 3-1.2-.6-2L18 15.7l2 .3 1-3z',
  search: 'M11 4a7 7 0 1 0 0 14 7 7 0 0 0 0-14zM20 20l-4-4',
  folder: 'M3 7a1 1 0 0 1 1-1h5l2 2h8a1 1 0 0 1 1 1v9a1 1 0 0 1-1 1H4a1 1 0 0 1-1-1z',
  file: 'M6 3h8l4 4v14H6zM14 3v4h4',
  image: 'M4 5h16v14H4zM4 16l5-5 4 4 3-3 4 4M15 9h.01',
  download: 'M12 4v11M7 11l5 5 5-5M5 20h14',
  restore: 'M9 14 4 9l5-5M4 9h9a6 6 0 0 1 0 12h-3',
  compare: 'M12 3v18M8 7H4v10h4M16 7h4v10h-4',
  left: 'M15 6l-6 6 6 6',
  right: 'M9 6l6 6-6 6',
  up: 'M6 15l6-6 6 6',
  user: 'M12 4a4 4 0 1 0 0 8 4 4 0 0 0 0-8zM4 21a8 8 0 0 1 16 0',
  plus: 'M12 5v14M5 12h14',
  minus: 'M5 12h14',
  close: 'M6 6l12 12M18 6 6 18',
  eye: 'M2 12s4-7 10-7 10 7 10 7-4 7-10 7S2 12 2 12zM12 9a3 3 0 1 0 0 6 3 3 0 0 0 0-6z',
  check: 'M5 12l5 5L20 7',
  moon: 'M20 14a8 8 0 1 1-10-10 6.500 6.500 0 0 0 10 10z',
  lock: 'M6 11h12v9H6zM8.5 11V8a3.5 3.5 0 0 1 7 0v3',
  unlock: 'M6 11h12v9H6zM8.5 11V7.5a3.5 3.5 0 0 1 6.7-1.4',
  copy: 'M9 9h11v11H9zM5 15H4V4h11v1',
} as const

export type IconName = keyof typeof PATHS

export function Icon({ name }: { name: IconName }) {
  return (
    <svg className="icon" viewBox="0 0 24 24" aria-hidden="true">
      <path d={PATHS[name]} />
    </svg>
  )
}

export function Logo() {
  return (
    <svg
      width="22"
      height="22"
      viewBox="0 0 24 24"
      fill="none"
      stroke="var(--kelp)"
      strokeWidth="2.2"
      strokeLinecap="round"
      aria-hidden="true"
    >
      <path d="M12 2.5v8.5M12 11c0 4-2 5.5-5 6.500M12 11c0 4 2 5.500 5 6.500M12 11v10M7 17.500c-1.500.6-2.700 1.500-3.500 3M17 17.500c1.500.6 2.700 1.500 3.500 3" />
      <path d="M12 6.500c2.500 0 4.500-1.200 5-3.500-2.800-.3-4.700 1-5 3.500z" fill="var(--kelp)" stroke="none" />
    </svg>
  )
}
