import type { ReactNode } from 'react'
import { useMe } from '../../layout/Shell'
import { Note } from '../../ui/States'
import { Create } from './Create'

/** Repositories belong to the whole service, so only admins add them. */
function ForAdmins({ children }: { children: ReactNode }) {
  const { data: me } = useMe()
  if (me && me.role !== 'admin')
    return (
      <main>
        <Note title="Only an admin can add repositories." heading>
          Ask an admin to add one and share it with you.
        </Note>
      </main>
    )
  return children
}

export const New = () => (
  <ForAdmins>
    <Create />
  </ForAdmins>
)
export const Import = () => (
  <ForAdmins>
    <Create importing />
  </ForAdmins>
)
