import { createHash } from 'node:crypto';
import { CsiError } from '../csi_error.ts';

/** The specification's limit for strings, in bytes of UTF-8. */
const longestName = 128;
/** What the specification forbids in names: control characters but tab, line feed and carriage return. */
const forbidden = /[^\P{Cc}\t\n\r]/u;
/** What agents take for a volume's name, and needs no escaping. */
const plain = /^[A-Za-z0-9](?:[A-Za-z0-9._-]*[A-Za-z0-9])?$/;

/**
 * The id of the volume that was asked for under a name: the name itself, as in `pvc-<uid>`; for a name with other
 * characters a digest of it, so that the same name always gives the same id. `INVALID_ARGUMENT` when it is no name.
 */
export function volumeIdOf(name: string): string {
  if (name === '') throw new CsiError('INVALID_ARGUMENT', 'the name of the volume is missing');
  if (Buffer.byteLength(name) > longestName) {
    throw new CsiError('INVALID_ARGUMENT', `the name of the volume is longer than ${longestName} bytes`);
  }
  if (forbidden.test(name)) throw new CsiError('INVALID_ARGUMENT', 'the name of the volume has control characters');
  if (plain.test(name)) return name;
  return `volume-${createHash('sha256').update(name).digest('hex').slice(0, 40)}`;
}
