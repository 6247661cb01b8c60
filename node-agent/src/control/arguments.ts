import { HearthError } from '@hearth/common';

/** The word when it is one of those allowed; `InvalidArgument` names the field and the words. */
export function oneOfWords<const T extends string>(field: string, word: string, allowed: readonly T[]): T {
  const found = allowed.find((one) => one === word);
  if (found !== undefined) return found;
  throw new HearthError('InvalidArgument', `${field} is "${word}"; it must be ${allowed.join(', ')}`);
}
