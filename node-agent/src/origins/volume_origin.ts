import { createHash, type Hash } from 'node:crypto';
import { HearthError } from '@hearth/common';
import type { EngineVolumes, PublishedAttributes, PublishedEntry } from '@hearth/engine';
import type { LocatableEntry, Location, ManifestRow, Origin, OriginRevision } from './origin.ts';
import { escapeBytes, UnusableNames } from './unusable_names.ts';

/** The writable volumes of the cluster, as an origin needs them. */
export interface PublishedVolumes {
  engine: Pick<EngineVolumes, 'lookUpInVolume' | 'listVolumeFolder' | 'volumeContents'>;
  /** Resolves with the volume's id when the engine knows the volume; throws `NotFound`. */
  open(name: string, signal: AbortSignal): Promise<string>;
  /** True for an id of a volume that was deleted. */
  isDeleted(id: string): boolean;
}

export interface VolumeOriginOptions {
  volume: string;
  /** Of the folder or file in the volume; '': the whole volume. */
  path: string;
  unusableNames: string;
  volumes: PublishedVolumes;
}

/**
 * The published files of a writable volume. Content keys are those of the volume's own mounts, so a dataset and a mount
 * share cached bytes. A location names the node that wrote the file. A revision lasts as long as the volume has its
 * files: other content of a file has another key, and is never read for this one.
 */
export class VolumeOrigin implements Origin {
  readonly kind = 'volume';
  /** Its leader is asked, which answers many entries at once. */
  readonly locatesFreely = true;
  readonly #volume: string;
  readonly #path: string;
  readonly #unusableNames: string;
  readonly #volumes: PublishedVolumes;
  #warnings: string[] = [];

  constructor({ volume, path, unusableNames, volumes }: VolumeOriginOptions) {
    this.#volume = volume;
    this.#path = path;
    this.#unusableNames = unusableNames;
    this.#volumes = volumes;
  }

  describe(): string {
    return describeVolume(this.#volume, this.#path);
  }

  get lackingError(): HearthError {
    return new HearthError(
      'OriginChanged',
      `volume ${this.#volume} has no longer this content of the file, which was written again, removed or evicted`,
    );
  }

  async *list(signal: AbortSignal): AsyncGenerator<ManifestRow[]> {
    const id = await this.#volumes.open(this.#volume, signal);
    const unusable = new UnusableNames(this.#unusableNames);
    const seen = createHash('sha256');
    for await (const found of this.#walk(id, true, seen, signal)) {
      yield found.flatMap((one) => rowOf(id, one, unusable) ?? []);
    }
    const now = createHash('sha256');
    for await (const _ of this.#walk(id, false, now, signal));
    if (!seen.digest().equals(now.digest())) {
      throw new HearthError(
        'Unavailable',
        `${this.describe()} was written while it was listed; add the dataset again when its writer has ended`,
      );
    }
    this.#warnings = unusable.finish();
  }

  revision(): OriginRevision {
    return { name: '', warnings: this.#warnings };
  }

  base(): undefined {
    return undefined;
  }

  /** Leaves out files of which the volume no longer has the content; `lackingError` is theirs. */
  async locate(entries: LocatableEntry[], signal: AbortSignal): Promise<Location[]> {
    const places = entries.map(placeOf);
    const [{ id } = { id: '' }] = places;
    if ((await this.#openAsListed(id, signal)) === undefined) return [];
    const contents = await this.#volumes.engine.volumeContents(
      id,
      places.map(({ inode }) => inode),
    );
    return entries.flatMap(({ index, contentKey }, at) => {
      const content = contents[at];
      if (content === undefined || content.contentKey !== contentKey || content.node === '') return [];
      return [{ entry: index, node: content.node }];
    });
  }

  /** The agent reads all files with its own rights, so parts do not differ. */
  partOf(): string {
    return '';
  }

  /** Asks the leader alone: bytes of agents need no proof. */
  async readByte(entry: LocatableEntry, signal: AbortSignal): Promise<void> {
    const [location] = await this.locate([entry], signal);
    if (location === undefined) throw this.lackingError.within(entry.path);
  }

  close(): void {}

  /** Undefined when the volume with this id was deleted. */
  async #openAsListed(id: string, signal: AbortSignal): Promise<string | undefined> {
    if (this.#volumes.isDeleted(id)) return undefined;
    const present = await this.#volumes.open(this.#volume, signal).catch((thrown: unknown) => {
      const error = HearthError.from(thrown);
      if (error.code !== 'NotFound') throw error;
      if (this.#volumes.isDeleted(id)) return undefined;
      // The store was lost, and the agent with the volume's log writes its record again.
      throw new HearthError('Unavailable', error.message, { cause: error });
    });
    return present === id ? present : undefined;
  }

  /** Yields what is below the path, folder by folder, and adds names and versions of all of it to a hash. */
  async *#walk(id: string, contents: boolean, hash: Hash, signal: AbortSignal): AsyncGenerator<Found[]> {
    const { engine } = this.#volumes;
    const top = await engine.lookUpInVolume(id, this.#path);
    if (top.kind !== 'folder') {
      const path = this.#path.slice(this.#path.lastIndexOf('/') + 1);
      note(hash, path, top);
      yield [{ path, entry: await this.#soleFile(id, top) }];
      return;
    }
    const folders = [{ inode: top.inode, prefix: '' }];
    for (let folder = folders.pop(); folder !== undefined; folder = folders.pop()) {
      const { inode, prefix } = folder;
      let after = 0n;
      for (let more = true; more; ) {
        if (signal.aborted) throw new HearthError('Cancelled', `the listing of ${this.describe()} was cancelled`);
        const page = await engine.listVolumeFolder(id, inode, after, contents);
        more = page.more && page.entries.length > 0;
        const isEmpty = after === 0n && page.entries.length === 0;
        const found = page.entries.map((entry) => ({ path: join(prefix, textOf(entry.name)), entry }));
        for (const { path, entry } of found) {
          after = entry.cookie;
          note(hash, path, entry);
          if (entry.kind === 'folder') folders.push({ inode: entry.inode, prefix: path });
        }
        yield isEmpty && prefix !== '' ? [{ path: prefix, entry: undefined }] : found;
      }
    }
  }

  /** The source is a file itself. */
  async #soleFile(id: string, attributes: PublishedAttributes): Promise<ListedEntry> {
    if (attributes.kind !== 'file')
      throw new HearthError('InvalidArgument', `${this.describe()} is a ${attributes.kind}; name a folder or a file`);
    const [content] = await this.#volumes.engine.volumeContents(id, [attributes.inode]);
    if (content === undefined) throw new HearthError('NotFound', `${this.describe()} has no bytes yet`);
    return { ...attributes, ...content, target: new Uint8Array() };
  }
}

type ListedEntry = Omit<PublishedEntry, 'name' | 'cookie'>;

/** `entry` undefined: an empty folder. */
interface Found {
  path: string;
  entry: ListedEntry | undefined;
}

export function describeVolume(volume: string, path: string): string {
  return `volume://${volume}${path === '' ? '' : `/${path}`}`;
}

function join(prefix: string, name: string): string {
  return prefix === '' ? name : `${prefix}/${name}`;
}

const utf8 = new TextDecoder('utf-8', { fatal: true });

/** A name that is not UTF-8 becomes one that no file of the volume has. */
function textOf(name: Uint8Array): string {
  try {
    return utf8.decode(name);
  } catch {
    return `${notText}${escapeBytes(name)}`;
  }
}

/** No name in a volume holds a NUL. */
const notText = '\0';

function note(hash: Hash, path: string, { inode, kind, version }: PublishedAttributes): void {
  // A file that is put below it changes a folder's own version, which its entries show.
  hash.update(JSON.stringify([path, String(inode), kind === 'folder' ? '' : String(version)]));
}

function rowOf(id: string, { path, entry }: Found, unusable: UnusableNames): ManifestRow | undefined {
  if (path.includes(notText)) {
    unusable.add(path.replaceAll(notText, ''), 'it is not UTF-8');
    return undefined;
  }
  if (entry === undefined) return { path, kind: 'directory', size: 0n };
  const modifiedAtNs = entry.modifiedAtNs;
  switch (entry.kind) {
    case 'folder':
      return undefined;
    case 'file': {
      const { size, contentKey, inode, mode } = entry;
      const validator = `volume:${id}:${inode}`;
      return { path, kind: 'file', size, contentKey, validator, executable: (mode & 0o111) !== 0, modifiedAtNs };
    }
    case 'symlink': {
      const target = Buffer.from(entry.target);
      const symlinkTarget = target.toString();
      if (Buffer.from(symlinkTarget).equals(target))
        return { path, kind: 'symlink', size: 0n, symlinkTarget, modifiedAtNs };
      unusable.add(path, 'its symbolic link points to a name that is not UTF-8');
      return undefined;
    }
    default:
      unusable.add(path, `a ${entry.kind}, which has no content to cache`);
      return undefined;
  }
}

/** From the validator that `rowOf` made. */
function placeOf({ path, validator }: LocatableEntry): { id: string; inode: bigint } {
  const [, id, inode] = /^volume:([0-9a-f]{32}):(\d+)$/.exec(validator) ?? [];
  if (id !== undefined && inode !== undefined) return { id, inode: BigInt(inode) };
  throw new HearthError('Internal', `the manifest does not say which file of the volume ${path} is`);
}
