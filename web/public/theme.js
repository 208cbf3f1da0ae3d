// Chosen before anything is painted, so that no page flashes in the other theme.
;(() => {
  let wanted = null
  try {
    wanted = localStorage.getItem('theme')
  } catch {}
  const dark = wanted ? wanted === 'dark' : matchMedia('(prefers-color-scheme: dark)').matches
  document.documentElement.classList.toggle('dark', dark)
})()

// A script that did not arrive, because the network changed or the service was just starting, is asked for again.
;(() => {
  const key = 'holdfast-reloads'
  const most = 5
  let tries = most
  try {
    tries = Number(sessionStorage.getItem(key)) || 0
  } catch {}
  addEventListener('holdfast-loaded', () => {
    tries = most // the page itself says from now on what is missing, and no input is lost
    try {
      sessionStorage.removeItem(key)
    } catch {}
  })
  addEventListener(
    'error',
    (event) => {
      const lost = event.target
      const isStyle = lost instanceof HTMLLinkElement && lost.rel === 'stylesheet'
      if (!(lost instanceof HTMLScriptElement || isStyle) || tries >= most) return
      try {
        sessionStorage.setItem(key, String(tries + 1))
      } catch {
        return
      }
      tries = most
      setTimeout(() => location.reload(), 1000)
    },
    true,
  )
})()

// Whether a user is logged in is asked while the scripts still load; api/session.ts takes the answer.
;(() => {
  const ask = () => fetch('/api/auth/refresh', { method: 'POST', headers: { 'X-Holdfast-Web': '1' } }).catch(() => null)
  window.holdfastRefresh = navigator.locks ? navigator.locks.request('holdfast-refresh', ask) : ask()
})()
