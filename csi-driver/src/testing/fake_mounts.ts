import {
  barrierType,
  type FolderEntry,
  type MountCalls,
  type MountEntry,
  optionsOf,
  type Restrictions,
  type Space,
} from '../mounts/mount_calls.ts';

/** A mount table in memory, with the rules of the kernel that matter here. Outlives the process that a test "kills". */
export class FakeMounts implements MountCalls {
  readonly entries: MountEntry[] = [];
  readonly folders = new Set<string>();
  readonly shared = new Set<string>();
  /** Groups that may write, by target. */
  readonly groups = new Map<string, number>();
  /** Devices whose server is gone. */
  readonly dead = new Set<string>();
  /** Folders of the machine itself, which are bound without being mount points. */
  readonly plain = new Set<string>();
  /** Texts of files and links that were made in mounts in memory, by path. */
  readonly files = new Map<string, string>();
  #nextId = 100;

  /** As when the agent makes a mount. */
  add(mountPoint: string, device: string, options = ['ro'], superOptions = ['rw'], type = 'fuse.hearth'): void {
    const parent = this.#top(mountPoint)?.id ?? 1;
    this.entries.push({ id: this.#nextId++, parent, device, type, root: '/', mountPoint, options, superOptions });
  }

  reboot(): void {
    this.entries.length = 0;
  }

  async table(): Promise<MountEntry[]> {
    return [...this.entries];
  }

  async resolve(target: string): Promise<string | undefined> {
    return target.includes('/gone/') ? undefined : target;
  }

  async makeTarget(target: string): Promise<void> {
    this.folders.add(target);
  }

  async bind(source: string, target: string, restrictions: Restrictions): Promise<void> {
    if (!this.folders.has(target)) throw new Error(`${target} is not there`);
    const from = this.#top(source);
    if (from === undefined && this.plain.has(source)) {
      this.add(target, `plain ${source}`, optionsOf(restrictions), ['rw'], 'ext4');
      return;
    }
    if (from === undefined) throw new Error(`${source} is not mounted`);
    this.add(target, from.device, [...optionsOf(restrictions), ...mapping(from)], from.superOptions);
  }

  async bindOver(source: string, target: string, restrictions: Restrictions): Promise<void> {
    if (this.#top(target) === undefined) throw new Error(`${target} is not mounted`);
    await this.bind(source, target, restrictions);
  }

  async shareSockets(directory: string): Promise<void> {
    this.shared.add(directory);
  }

  async bar(target: string): Promise<void> {
    if (this.#top(target) === undefined) throw new Error(`${target} is not mounted`);
    this.add(target, `barrier ${this.#nextId}`, optionsOf({ noexec: false }), ['ro'], barrierType);
  }

  async isDead(path: string): Promise<boolean> {
    const top = this.#top(path);
    return top !== undefined && (top.type === barrierType || this.dead.has(top.device));
  }

  /** The device names its source, so that tests see it. */
  async overlay(source: string, target: string, restrictions: Restrictions): Promise<void> {
    if (!this.folders.has(target)) throw new Error(`${target} is not there`);
    const from = this.#top(source);
    if (from === undefined) throw new Error(`${source} is not mounted`);
    this.add(target, `over ${from.device}`, optionsOf(restrictions), ['ro'], 'overlay');
  }

  async memory(target: string): Promise<void> {
    if (!this.folders.has(target)) throw new Error(`${target} is not there`);
    this.add(target, `memory ${this.#nextId}`, ['rw', 'nosuid', 'nodev', 'noexec'], ['rw'], 'tmpfs');
  }

  async replace(target: string, entries: readonly FolderEntry[], group: number | undefined): Promise<void> {
    if (this.#top(target)?.type !== 'tmpfs') throw new Error(`nothing in memory is mounted at ${target}`);
    for (const entry of entries) {
      const text = 'link' in entry ? `-> ${entry.link}` : entry.text;
      this.files.set(`${target}/${entry.name}`, group === undefined ? text : `${text} for ${group}`);
    }
  }

  async space(): Promise<Space> {
    return { bytes: 1024n, bytesFree: 24n, files: 64n, filesFree: 60n };
  }

  async shareWith(target: string, group: number): Promise<void> {
    if (!this.#top(target)?.options.includes('rw')) throw new Error(`${target} is not mounted for writing`);
    this.groups.set(target, group);
  }

  async restrict(target: string, restrictions: Restrictions): Promise<void> {
    const top = this.#top(target);
    if (top === undefined) throw new Error(`${target} is not mounted`);
    top.options = [...optionsOf(restrictions), ...mapping(top)];
  }

  async unmount(target: string): Promise<void> {
    const top = this.#top(target);
    if (top === undefined) throw new Error(`${target} is not mounted`);
    if (this.entries.some(({ mountPoint }) => mountPoint.startsWith(`${target}/`)))
      throw new Error(`${target} is busy`);
    this.entries.splice(this.entries.indexOf(top), 1);
    for (const path of this.files.keys()) if (path.startsWith(`${target}/`)) this.files.delete(path);
    for (const path of this.folders) if (path.startsWith(`${target}/`)) this.folders.delete(path);
  }

  async removeTarget(target: string): Promise<void> {
    if (this.#top(target) !== undefined) throw new Error(`${target} is mounted`);
    this.folders.delete(target);
  }

  #top(path: string): MountEntry | undefined {
    return this.entries.findLast((entry) => entry.mountPoint === path);
  }
}

/** The properties that the kernel keeps in copies of a mount, whatever happens to their flags. */
function mapping(entry: MountEntry): string[] {
  return entry.options.filter((option) => option === 'idmapped');
}
