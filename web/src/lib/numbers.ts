const UNITS = ['B', 'KB', 'MB', 'GB', 'TB', 'PB']

export function bytes(value: number): string {
  let amount = value
  let unit = 0
  while (amount >= 1000 && unit < UNITS.length - 1) {
    amount /= 1000
    unit += 1
  }
  const digits = unit === 0 || amount >= 100 ? 0 : amount >= 10 ? 1 : 2
  return `${trimmed(amount.toFixed(digits))} ${UNITS[unit]}`
}

function trimmed(text: string): string {
  return text.includes('.') ? text.replace(/\.?0+$/, '') : text
}

const grouped = new Intl.NumberFormat('en-GB')
export const count = (value: number) => grouped.format(value)

/** `1 file`, `2 files`. */
export function counted(value: number, one: string, many = `${one}s`): string {
  return `${count(value)} ${value === 1 ? one : many}`
}

const SMALL = ['No', 'One', 'Two', 'Three', 'Four', 'Five', 'Six', 'Seven', 'Eight', 'Nine', 'Ten', 'Eleven', 'Twelve']
export const inLetters = (value: number) => SMALL[value] ?? count(value)
