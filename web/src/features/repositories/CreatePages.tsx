import { Create } from './Create'

export const New = () => <Create />
export const Import = () => <Create importing />
