import { HearthError } from '@hearth/common';
import { Mirrors, type Source } from '@hearth/common/generated/hearth/v1/control.ts';
import { mirroredKey } from './content_key.ts';
import type { LocatableEntry, Location, ManifestRow, Origin, OriginBase, OriginRevision } from './origin.ts';
import { describeSource } from './source.ts';
import { withEnvironment } from './source_environment.ts';

/** The engine supports 16 places including the first source. */
const maxMirrors = 15;

/** The mirrors of a source, in order. */
export function mirrorsOf(source: Source): readonly Source[] {
  return source.mirrors?.sources ?? [];
}

/**
 * True when a source of a dataset (0: the first) needs the dataset's credentials. The first source is known to need
 * none where only mirrors have some.
 */
export function hasOwn({ mirrors }: Source, source: number): boolean {
  return source === 0 ? mirrors?.sourceHasNone !== true : mirrors?.credentialed.includes(source - 1) === true;
}

/** True for equal sets of places in any order, which have equal content keys and differ in request settings only. */
export function samePlaces(a: Source, b: Source): boolean {
  const keys = (source: Source) => JSON.stringify([placeKey(source), ...mirrorsOf(source).map(placeKey).sort()]);
  return keys(a) === keys(b);
}

/** True when both have the same list of mirrors. */
export function sameMirrors(a: Source, b: Source): boolean {
  const text = ({ mirrors }: Source) => JSON.stringify(mirrors === undefined ? undefined : Mirrors.toJSON(mirrors));
  return text(a) === text(b);
}

const longestName = 200;

/** A bounded name of a place for people and logs, as written, without secrets. Names need not be unique. */
export function placeName(source: Source): string {
  const name = describeSource(withEnvironment(source, {}));
  return name.length <= longestName ? name : `${name.slice(0, longestName - 1)}…`;
}

/**
 * Equal exactly for equal places, regardless of explicit defaults and request settings. JSON, so that no field can
 * imitate two. Must never change, because content keys contain it.
 */
export function placeKey(source: Source): string {
  const { kind } = withEnvironment(source, {});
  switch (kind?.$case) {
    case 's3': {
      const { bucket, prefix, endpoint, region } = kind.value;
      return JSON.stringify(['s3', endpoint, endpoint === '' ? region : '', bucket, prefix]);
    }
    case 'http':
      return JSON.stringify(['http', ...kind.value.urls]);
    case 'hub': {
      const { endpoint, repoType, repo, revision } = kind.value;
      return JSON.stringify(['hub', endpoint, repoType || 'model', repo, revision || 'main']);
    }
    case 'directory':
      return JSON.stringify(['directory', kind.value.path]);
    case 'volume':
      return JSON.stringify(['volume', kind.value.name, kind.value.path]);
    default:
      return JSON.stringify([kind?.$case ?? '']);
  }
}

/**
 * True when equal ETags at both places prove equal bytes: S3 derives ETags from the bytes (MD5 of them or of their
 * parts), while web servers often use date and size, which prove nothing at another server. The engine checks the form
 * of each ETag, because gateways give one constant to all files that they did not write.
 */
export function comparesTags(source: Source, mirror: Source): boolean {
  return source.kind?.$case === 's3' && mirror.kind?.$case === 's3';
}

/** Throws `InvalidArgument` for invalid mirrors. */
export function checkMirrors(source: Source): void {
  const mirrors = mirrorsOf(source);
  if (mirrors.length > 0 && source.kind?.$case === 'volume')
    throw wrong('a volume has no mirrors: nothing proves that another place has its bytes');
  if (mirrors.length > maxMirrors) throw wrong(`there are ${mirrors.length} mirrors; at most ${maxMirrors} are used`);
  const places = new Set([placeKey(source)]);
  for (const mirror of mirrors) {
    const kind = mirror.kind?.$case;
    if (kind === undefined || kind === 'selfTest' || kind === 'volume')
      throw wrong('a mirror is a directory, an S3 bucket, http(s) URLs or a hub');
    if (kind === 'hub' && source.kind?.$case !== 'hub')
      throw wrong('a hub can be a mirror of a hub only, since its files are read at a commit');
    if (mirrorsOf(mirror).length > 0)
      throw wrong('a mirror has no mirrors of its own; list all of them at the dataset');
    const place = placeKey(mirror);
    if (places.has(place)) throw wrong(`${placeName(mirror)} is named twice; each mirror is another place`);
    places.add(place);
  }
}

/**
 * Modifies the content keys of a source with mirrors: mirrors may supply the bytes, so datasets share bytes only with
 * datasets that have the same mirrors. Undefined without mirrors.
 */
export function keyScopeOf(source: Source): ((key: string) => string) | undefined {
  const places = mirrorsOf(source).map(placeKey).sort();
  return places.length === 0 ? undefined : (key) => mirroredKey(key, places);
}

/** An origin whose files mirrors may also supply. */
export class MirroredOrigin implements Origin {
  readonly #first: Origin;
  readonly #scope: (key: string) => string;

  constructor(first: Origin, scope: (key: string) => string) {
    this.#first = first;
    this.#scope = scope;
  }

  get kind(): Origin['kind'] {
    return this.#first.kind;
  }

  get locatesFreely(): boolean {
    return this.#first.locatesFreely;
  }

  describe(): string {
    return this.#first.describe();
  }

  async *list(signal: AbortSignal): AsyncGenerator<ManifestRow[]> {
    for await (const rows of this.#first.list(signal)) {
      yield rows.map((row) =>
        row.contentKey === undefined ? row : { ...row, contentKey: this.#scope(row.contentKey) },
      );
    }
  }

  revision(): OriginRevision {
    return this.#first.revision();
  }

  base(): OriginBase | undefined | Promise<OriginBase> {
    return this.#first.base();
  }

  locate(entries: LocatableEntry[], signal: AbortSignal, allowMissing = false): Promise<Location[]> {
    return this.#first.locate(entries, signal, allowMissing);
  }

  partOf(row: ManifestRow): string {
    return this.#first.partOf(row);
  }

  readByte(entry: LocatableEntry, signal: AbortSignal): Promise<void> {
    return this.#first.readByte(entry, signal);
  }

  close(): void {
    this.#first.close();
  }
}

function wrong(reason: string): HearthError {
  return new HearthError('InvalidArgument', reason);
}
