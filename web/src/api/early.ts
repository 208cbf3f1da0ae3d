declare global {
  interface Window {
    /** What theme.js has asked for while the scripts were still loading, and for whom. */
    holdfastEarly?: { token: string | null; answers: Record<string, Promise<Response | null>> }
  }
}

/** The answer to a request that has been sent already, for this user; each is given once. */
export function early(request: Request, token: string): Promise<Response | null> | undefined {
  const sent = window.holdfastEarly
  if (sent === undefined || request.method !== 'GET') return undefined
  if (sent.token !== token) {
    window.holdfastEarly = undefined
    return undefined
  }
  const { pathname, search } = new URL(request.url)
  const answer = sent.answers[pathname + search]
  delete sent.answers[pathname + search]
  return answer
}
