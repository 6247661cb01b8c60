import type { Member } from './pod_view.ts';

/** By 'namespace/name' of the pod. */
type Members = Map<string, Member>;

/** The beginning of the name for no group: a pod with our gate and no plan. Never the name of an object. */
const strayMark = '!';

/** Which pods belong together, kept in step by the reflector of pods. Groups are named as their CachePreloads: 'namespace/name'. */
export class Groups {
  readonly #groups = new Map<string, Members>();
  readonly #changed: (key: string) => void;

  /** `changed` is called with the key of a group when its pods have changed. */
  constructor(changed: (key: string) => void) {
    this.#changed = changed;
  }

  /** The pod was this and is that now. */
  update(pod: string, before: Member | undefined, after: Member | undefined): void {
    if (before === undefined && after === undefined) return;
    const [from, to] = [before, after].map((member) => member && groupKey(member));
    if (from !== undefined && from !== to) this.#remove(from, pod);
    if (to !== undefined && after !== undefined) {
      const members = this.#groups.get(to) ?? new Map<string, Member>();
      this.#groups.set(to, members.set(pod, after));
    }
    if (from !== undefined) this.#changed(from);
    if (to !== undefined && to !== from) this.#changed(to);
  }

  keys(): string[] {
    return [...this.#groups.keys()];
  }

  /** How many pods it has. */
  size(key: string): number {
    return this.#groups.get(key)?.size ?? 0;
  }

  /** In the order in which they were made. */
  members(key: string): Member[] {
    const members = [...(this.#groups.get(key)?.values() ?? [])];
    return members.sort((a, b) => a.createdAt - b.createdAt || (a.name < b.name ? -1 : 1));
  }

  /** Members that are held back, and are not going. */
  gated(key: string): GatedMember[] {
    return this.members(key).filter((member): member is GatedMember => member.gated !== undefined && !member.deleting);
  }

  #remove(key: string, pod: string): void {
    const members = this.#groups.get(key);
    members?.delete(pod);
    if (members?.size === 0) this.#groups.delete(key);
  }
}

export type GatedMember = Member & { gated: NonNullable<Member['gated']> };

/** The group is a single pod that was given our gate by others, without a plan. */
export function isStray(key: string): boolean {
  return key.includes(`/${strayMark}`);
}

/** The name of the pod's group. */
export function groupKey({ namespace, name, preload }: Member): string {
  return `${namespace}/${preload === '' ? strayMark + name : preload}`;
}
