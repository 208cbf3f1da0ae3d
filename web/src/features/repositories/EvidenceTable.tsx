import { Link, useNavigate } from '@tanstack/react-router'
import type { Schemas } from '../../api/client'
import { bytes, counted } from '../../lib/numbers'
import { VERDICT } from '../../lib/words'
import { Evidence } from '../../ui/Evidence'
import { Glyph } from '../../ui/Glyph'
import { Strip } from '../../ui/Strip'

type Row = Schemas['RepositoryEvidence']

const CELLS = [
  ['backup', 'Backup'],
  ['check', 'Check'],
  ['restore_check', 'Restore proven'],
  ['mirror', 'Mirror'],
] as const

export function EvidenceTable({ rows }: { rows: Row[] }) {
  return (
    <>
      <div className="card scroll">
        <table className="repositories">
          <thead>
            <tr>
              <th>Name</th>
              {CELLS.map(([name, word]) => (
                <th key={name}>{word}</th>
              ))}
              <th className="wide-only">Last 6 weeks</th>
              <th className="wide-only right">Size</th>
            </tr>
          </thead>
          <tbody>
            {rows.map((row) => (
              <RepositoryRow key={row.id} row={row} />
            ))}
          </tbody>
        </table>
      </div>
      <Legend />
    </>
  )
}

function RepositoryRow({ row }: { row: Row }) {
  const navigate = useNavigate()
  const cell = (name: string) => row.cells.find((one) => one.cell === name)
  const verdict = VERDICT[row.verdict] ?? VERDICT.unknown
  const glyph = row.verdict === 'at_risk' && cell('backup')?.state === 'failed' ? 'bad' : verdict?.glyph
  const open = () => void navigate({ to: '/repositories/$id', params: { id: String(row.id) } })
  return (
    <tr className="open" onClick={(event) => (event.target as HTMLElement).closest('a') === null && open()}>
      <td>
        <span className="evidence">
          <Glyph name={glyph ?? 'unknown'} />
          <span>
            <Link to="/repositories/$id" params={{ id: String(row.id) }} className="name">
              {row.name}
              <span className="visually-hidden">, {verdict?.word}</span>
            </Link>
            <span className="sub">{row.machine ?? 'this machine'}</span>
          </span>
        </span>
      </td>
      {CELLS.map(([name, word]) => {
        const found = cell(name)
        return (
          <td key={name} data-label={word}>
            {found && <Evidence cell={found} />}
          </td>
        )
      })}
      <td className="wide-only">
        <Strip days={row.days} />
      </td>
      <td
        className="wide-only right number"
        title={row.archive_count === null ? undefined : counted(row.archive_count, 'archive')}
      >
        {row.unique_size === null ? <span className="muted">unknown</span> : bytes(row.unique_size)}
      </td>
    </tr>
  )
}

function Legend() {
  return (
    <div className="legend muted wide-only">
      <span>less</span>
      <span className="strip small">
        <i />
        <i className="l1" />
        <i className="l2" />
        <i className="l3" />
        <i className="l4" />
      </span>
      <span>more new data</span>
      <span className="strip small">
        <i className="missed" />
      </span>
      <span>missed run</span>
      <span className="strip small">
        <i className="failed" />
      </span>
      <span>failed</span>
    </div>
  )
}
