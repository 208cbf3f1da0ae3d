import { api, data, type Schemas } from './client'

type Wanted = Schemas['ArchiveDownload'] | Schemas['LogDownload']

/** Let the browser save something: it goes to the disk, whatever its size, and no address holds a credential. */
export async function save(wanted: Wanted): Promise<void> {
  const { url } = await data(api.POST('/api/downloads', { body: wanted }))
  const link = document.createElement('a')
  link.href = url
  link.download = ''
  link.click()
}
