import type { ButtonHTMLAttributes } from 'react'
import { Icon, type IconName } from './Icon'

type Kind = 'normal' | 'primary' | 'danger' | 'plain'

interface Props extends ButtonHTMLAttributes<HTMLButtonElement> {
  kind?: Kind
  small?: boolean
  icon?: IconName
}

export function Button({ kind = 'normal', small, icon, children, className, ...rest }: Props) {
  const classes = ['button', kind === 'normal' ? '' : kind, small ? 'small' : '', className ?? '']
    .filter(Boolean)
    .join(' ')
  return (
    <button type="button" className={classes} {...rest}>
      {icon && <Icon name={icon} />}
      {children}
    </button>
  )
}
