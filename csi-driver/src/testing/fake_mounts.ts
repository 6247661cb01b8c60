import { barrierType, type MountCalls, type MountEntry, type Restrictions } from '../mounts/mount_calls.ts';

/** A mount table in memory, with the rules of the kernel that matter here. Outlives the process that a test "kills". */
export class FakeMounts implements MountCalls {
  readonly entries: MountEntry[] = [];
  readonly folders = new Set<string>();
  /** Devices whose server is gone. */
  readonly dead = new Set<string>();
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
    if (from === undefined) throw new Error(`${source} is not mounted`);
    this.add(target, from.device, [...optionsOf(restrictions), ...mapping(from)], from.superOptions);
  }

  async bindOver(source: string, target: string, restrictions: Restrictions): Promise<void> {
    if (this.#top(target) === undefined) throw new Error(`${target} is not mounted`);
    await this.bind(source, target, restrictions);
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
    this.add(target, `over ${from.device}`, optionsOf(restrictions), ['ro']);
  }

  async restrict(target: string, restrictions: Restrictions): Promise<void> {
    const top = this.#top(target);
    if (top === undefined) throw new Error(`${target} is not mounted`);
    top.options = [...optionsOf(restrictions), ...mapping(top)];
  }

  async unmount(target: string): Promise<void> {
    const top = this.#top(target);
    if (top === undefined) throw new Error(`${target} is not mounted`);
    this.entries.splice(this.entries.indexOf(top), 1);
  }

  async removeTarget(target: string): Promise<void> {
    if (this.#top(target) !== undefined) throw new Error(`${target} is mounted`);
    this.folders.delete(target);
  }

  #top(path: string): MountEntry | undefined {
    return this.entries.findLast((entry) => entry.mountPoint === path);
  }
}

function optionsOf({ noexec }: Restrictions): string[] {
  return ['ro', 'nosuid', 'nodev', ...(noexec ? ['noexec'] : [])];
}

/** The properties that the kernel keeps in copies of a mount, whatever happens to their flags. */
function mapping(entry: MountEntry): string[] {
  return entry.options.filter((option) => option === 'idmapped');
}
