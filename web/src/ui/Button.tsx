import type { ButtonHTMLAttributes, MouseEvent } from 'react'
import { useAway } from '../api/stream'
import { Icon, type IconName } from './Icon'

type Kind = 'normal' | 'primary' | 'danger' | 'plain'

interface Props extends ButtonHTMLAttributes<HTMLButtonElement> {
  kind?: Kind
  small?: boolean
  icon?: IconName
  /** It needs the service: while the page is not connected it cannot be pressed, and says why. */
  acts?: boolean
}

export const AWAY = 'Not connected to the service. This works again once it responds.'

export function Button({ acts, ...rest }: Props) {
  return acts ? <Acting {...rest} /> : <Plain {...rest} />
}

function Acting(props: Omit<Props, 'acts'>) {
  return useAway() ? <Plain {...props} title={AWAY} aria-disabled="true" onClick={refuse} /> : <Plain {...props} />
}

/** The button keeps the focus and its explanation, and a form is not sent with Enter either. */
const refuse = (event: MouseEvent) => event.preventDefault()

function Plain({ kind = 'normal', small, icon, children, className, ...rest }: Omit<Props, 'acts'>) {
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
