import { createHash } from 'node:crypto';
import { type Clock, HearthError, sleep, systemClock } from '@hearth/common';
import type { Source } from '@hearth/common/generated/hearth/v1/control.ts';
import type { Location, ManifestRow } from '@hearth/engine';
import type { LocatableEntry, Origin, OriginBase, OriginRevision } from '../origins/origin.ts';

/** An origin with rows, revision and failures set by a test; counts its calls. */
export class FakeOrigin implements Origin {
  readonly kind = 'directory' as const;
  locatesFreely = true;
  rows: ManifestRow[];
  name = 'r1';
  warnings: string[] = [];
  originBase: OriginBase | undefined = { path: '/data', below: '/data' };
  /** Delay of every page of a listing. */
  listMs = 0;
  listError: HearthError | undefined;
  locateError: HearthError | undefined;
  readError: HearthError | undefined;
  /** Prefix of unreadable paths. */
  unreadable = '';
  /** Paths of which a byte was read. */
  readonly bytesRead: string[] = [];
  /** Location lookups wait for this promise after they were counted. */
  locating: Promise<void> = Promise.resolve();
  /** Expiry of locations, milliseconds since the epoch. */
  expiresAt: number | undefined;
  listed = 0;
  readonly located: number[][] = [];
  /** Paths that are missing when located. */
  readonly lacking = new Set<string>();
  closed = 0;
  readonly #clock: Clock;

  constructor(rows: ManifestRow[], clock: Clock = systemClock) {
    this.rows = rows;
    this.#clock = clock;
  }

  describe(): string {
    return '/data';
  }

  async *list(signal: AbortSignal): AsyncGenerator<ManifestRow[]> {
    this.listed++;
    for (const row of this.rows) {
      await sleep(this.#clock, this.listMs, signal);
      if (signal.aborted) throw new HearthError('Cancelled', 'the listing was given up');
      yield [row];
    }
    if (this.listError !== undefined) throw this.listError;
  }

  revision(): OriginRevision {
    return { name: this.name, warnings: this.warnings };
  }

  base(): OriginBase | undefined {
    return this.originBase;
  }

  async locate(entries: LocatableEntry[], _signal?: AbortSignal, allowMissing = false): Promise<Location[]> {
    this.located.push(entries.map((entry) => entry.index));
    await this.locating;
    if (this.locateError !== undefined) throw this.locateError;
    const there = entries.filter(({ path }) => !this.lacking.has(path));
    if (!allowMissing && there.length < entries.length) throw new HearthError('NotFound', 'a file is not there');
    return there.map((entry) => ({
      entry: entry.index,
      url: `https://origin.example/${entry.path}?signature=x`,
      ...(this.expiresAt === undefined ? {} : { expiresAt: this.expiresAt }),
    }));
  }

  partOf(row: ManifestRow): string {
    return row.path.slice(0, row.path.indexOf('/') + 1);
  }

  async readByte(entry: LocatableEntry): Promise<void> {
    this.bytesRead.push(entry.path);
    if (this.readError !== undefined && entry.path.startsWith(this.unreadable)) throw this.readError;
  }

  close(): void {
    this.closed++;
  }
}

export function fileRow(path: string, size: bigint, content = path): ManifestRow {
  return {
    path,
    kind: 'file',
    size,
    contentKey: createHash('sha256').update(`${content}:${size}`).digest('hex'),
    objectOffset: 0n,
  };
}

export const directorySource: Source = {
  kind: { $case: 'directory', value: { path: '/data' } },
  allowPrivate: false,
  unusableNames: '',
  allowWeakValidators: false,
};
