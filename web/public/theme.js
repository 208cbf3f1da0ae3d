// Chosen before anything is painted, so that no page flashes in the other theme.
;(() => {
  let wanted = null
  try {
    wanted = localStorage.getItem('theme')
  } catch {}
  const dark = wanted ? wanted === 'dark' : matchMedia('(prefers-color-scheme: dark)').matches
  document.documentElement.classList.toggle('dark', dark)
})()
