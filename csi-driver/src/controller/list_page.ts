import { CsiError } from '../csi_error.ts';
import type { VolumeRecord } from './volume_book.ts';

export interface Page {
  volumes: VolumeRecord[];
  /** '' after the last page. */
  nextToken: string;
}

const prefix = 'after:';

/**
 * Volumes in the order of their names, from behind the one that the token names: so the deletion of a volume between
 * two pages loses and repeats nothing. `ABORTED` for a token that is not ours, as the specification asks.
 */
export function pageOf(volumes: VolumeRecord[], maxEntries: number, token: string): Page {
  if (maxEntries < 0) throw new CsiError('INVALID_ARGUMENT', 'max_entries must not be negative');
  if (token !== '' && !token.startsWith(prefix)) {
    throw new CsiError('ABORTED', 'the starting token is none that this driver gave out; list from the beginning');
  }
  const after = token.slice(prefix.length);
  const rest = volumes.filter(({ name }) => name > after).sort((a, b) => (a.name < b.name ? -1 : 1));
  const page = maxEntries === 0 ? rest : rest.slice(0, maxEntries);
  const last = page.at(-1);
  return { volumes: page, nextToken: last !== undefined && page.length < rest.length ? prefix + last.name : '' };
}
