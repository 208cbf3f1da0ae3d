import { api, data, type Schemas } from './client'

type Wanted = Schemas['ArchiveDownload'] | Schemas['LogDownload'] | Schemas['AuditDownload']

/** Let the browser save a file of any size directly to the disk; no address holds a credential. */
export async function save(wanted: Wanted): Promise<void> {
  const { url } = await data(api.POST('/api/downloads', { body: wanted }))
  const link = document.createElement('a')
  link.href = url
  link.download = ''
  link.click()
}
