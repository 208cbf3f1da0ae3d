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

// Whether a user is logged in is asked while the scripts still load, and so is what every page needs first:
// api/session.ts and api/early.ts take the answers.
;(() => {
  const early = { token: null, answers: {} }
  const ask = (path, options) => fetch(path, options).catch(() => null)
  const refresh = async () => {
    const answer = await ask('/api/auth/refresh', { method: 'POST', headers: { 'X-Holdfast-Web': '1' } })
    if (!answer?.ok) return answer
    const { access_token: token, must_change_password: mustChange } = await answer
      .clone()
      .json()
      .catch(() => ({}))
    if (!token || mustChange) return answer
    early.token = token
    const zone = encodeURIComponent(Intl.DateTimeFormat().resolvedOptions().timeZone)
    for (const path of ['/api/auth/me', `/api/overview?tz=${zone}`])
      early.answers[path] = ask(path, { headers: { Authorization: `Bearer ${token}` } })
    return answer
  }
  window.holdfastEarly = early
  setTimeout(() => (window.holdfastEarly = undefined), 10_000) // older answers would show what no longer is
  window.holdfastRefresh = navigator.locks ? navigator.locks.request('holdfast-refresh', refresh) : refresh()
})()
