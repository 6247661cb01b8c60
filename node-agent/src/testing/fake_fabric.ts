import { createHash } from 'node:crypto';
import { HearthError } from '@hearth/common';
import type { ManifestEntry, ManifestInfo, ManifestRow } from '@hearth/engine';
import type { FakeEngine } from './fake_engine.ts';

export interface FakeManifest {
  info: ManifestInfo;
  entries: Omit<ManifestEntry, 'residentBytes'>[];
}

/** State shared by the fake engines of one process: the wire between them and the origin behind them. */
export class FakeFabric {
  readonly engines = new Map<string, FakeEngine>();
  /** Speed of a fetch without a rate limit, bytes a second. */
  bytesPerSecond = 1_000_000_000;
  /** Bytes sent by the origin, by content key. */
  readonly originBytes = new Map<string, bigint>();
  /** Content keys with the engine that fetches them from the origin; each is granted once. */
  readonly granted = new Map<string, FakeEngine>();
  /** Fetching this path fails with OriginChanged. */
  changedPath: string | undefined;

  get totalOriginBytes(): bigint {
    return [...this.originBytes.values()].reduce((a, b) => a + b, 0n);
  }

  /** An engine other than `asking` that has all bytes of the key. */
  holder(key: string, size: bigint, asking: FakeEngine): FakeEngine | undefined {
    return [...this.engines.values()].find((engine) => engine !== asking && engine.heldOf(key) === size);
  }
}

/** Deterministic: like in the engine, the digest does not depend on the order of rows. */
export function makeManifest(rows: readonly ManifestRow[]): FakeManifest {
  const sorted = [...rows].sort((a, b) => (a.path < b.path ? -1 : 1));
  const entries = sorted.map((row, index) => ({
    index: index + 1,
    path: row.path,
    kind: row.kind,
    size: row.size,
    contentKey: row.contentKey ?? '',
    sourceDigest: row.sourceDigest ?? '',
    validator: row.validator ?? '',
    symlinkTarget: row.symlinkTarget ?? '',
    executable: row.executable ?? false,
  }));
  const text = JSON.stringify(entries, (_, value) => (typeof value === 'bigint' ? value.toString() : value));
  const count = (kind: string) => entries.filter((entry) => entry.kind === kind).length;
  return {
    entries,
    info: {
      digest: createHash('sha256').update(text).digest('hex'),
      entries: entries.length + 1,
      files: count('file'),
      directories: count('directory') + 1,
      symlinks: count('symlink'),
      bytes: entries.reduce((sum, entry) => sum + entry.size, 0n),
    },
  };
}

/** Reason for which the manifest builder refuses a name; undefined when usable. */
export function unusableReason(path: string): string | undefined {
  if (path.startsWith('/')) return 'absolute';
  const bad = path.split('/').find((part) => part === '' || part === '.' || part === '..');
  return bad === undefined ? undefined : `has the part "${bad}"`;
}

export function notFound(what: string): HearthError {
  return new HearthError('NotFound', `${what} is not known to this engine`);
}
