import { useMutation } from '@tanstack/react-query'
import { type ReactNode, useState } from 'react'
import { api, data } from '../../api/client'
import { bytes, counted } from '../../lib/numbers'
import { Button } from '../../ui/Button'
import { Problem } from '../../ui/States'
import { FolderChooser } from './FolderChooser'
import { above, type Place } from './place'

export const lines = (text: string) =>
  text
    .split('\n')
    .map((line) => line.trim())
    .filter(Boolean)

/** A folder, typed or chosen. */
export function FolderField({
  label,
  place,
  value,
  placeholder,
  onChange,
  children,
}: {
  label: string
  place: Place
  value: string
  placeholder: string
  onChange: (value: string) => void
  children?: ReactNode
}) {
  const [choosing, setChoosing] = useState(false)
  return (
    <div className="field">
      <label className="field">
        <span>{label}</span>
        <input
          className="input mono"
          required
          placeholder={placeholder}
          value={value}
          onChange={(event) => onChange(event.target.value)}
        />
      </label>
      <div className="row">
        <Button small icon="folder" onClick={() => setChoosing(true)}>
          Choose a folder
        </Button>
        {children && <small className="grow">{children}</small>}
      </div>
      {choosing && (
        <FolderChooser place={place} start={above(value)} onChoose={onChange} onClose={() => setChoosing(false)} />
      )}
    </div>
  )
}

/** What is backed up: paths, typed or chosen, and how much that is. */
export function SourcesField({
  label,
  place,
  value,
  onChange,
}: {
  label: string
  place: Place
  value: string
  onChange: (value: string) => void
}) {
  const [choosing, setChoosing] = useState(false)
  const paths = lines(value)
  const estimate = useMutation({
    mutationFn: () =>
      data(
        api.POST('/api/filesystem/estimate', {
          body: { target: place.target, machine_id: place.machine_id, paths: paths.slice(0, 100) },
        }),
      ),
  })
  const change = (text: string) => {
    estimate.reset()
    onChange(text)
  }
  return (
    <div className="field">
      <label className="field">
        <span>{label}</span>
        <textarea
          className="input mono"
          rows={3}
          placeholder={'/etc\n/home'}
          value={value}
          onChange={(event) => change(event.target.value)}
        />
      </label>
      <div className="row">
        <Button small icon="folder" onClick={() => setChoosing(true)}>
          Choose what to back up
        </Button>
        <Button acts small disabled={paths.length === 0 || estimate.isPending} onClick={() => estimate.mutate()}>
          {estimate.isPending ? 'Counting…' : 'How much is it?'}
        </Button>
        {estimate.data && (
          <span className="soft" role="status">
            {estimate.data.complete ? '' : 'more than '}
            {counted(estimate.data.files, 'file')}, {bytes(estimate.data.bytes)}
            {estimate.data.unreadable > 0 && `; ${counted(estimate.data.unreadable, 'folder')} could not be read`}
          </span>
        )}
      </div>
      {estimate.error && <Problem error={estimate.error} />}
      {choosing && (
        <FolderChooser
          files
          place={place}
          start={above(paths.at(-1) ?? '')}
          onChoose={(path) => change([...paths.filter((one) => one !== path), path].join('\n'))}
          onClose={() => setChoosing(false)}
        />
      )}
    </div>
  )
}
