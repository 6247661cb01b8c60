import { HearthError } from '@hearth/common';

/** Returns the word if allowed; throws `InvalidArgument` with the field and the allowed words otherwise. */
export function oneOfWords<const T extends string>(field: string, word: string, allowed: readonly T[]): T {
  const found = allowed.find((one) => one === word);
  if (found !== undefined) return found;
  throw new HearthError('InvalidArgument', `${field} is "${word}"; it must be ${allowed.join(', ')}`);
}
