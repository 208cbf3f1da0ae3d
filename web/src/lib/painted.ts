/** Milliseconds: a page that is not seen gets no frame. */
const LONGEST_FRAME = 100

/** Ends when the browser has painted what has changed so far. */
export function painted(): Promise<void> {
  if (document.hidden) return Promise.resolve()
  return new Promise((done) => {
    window.setTimeout(done, LONGEST_FRAME)
    requestAnimationFrame(() => window.setTimeout(done))
  })
}
