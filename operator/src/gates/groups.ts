import type { Member } from './pod_view.ts';

type Members = Map<string, Member>;

/** Prefix of groups of one pod that has our gate and no plan. No object name starts with it. */
const strayMark = '!';

/** The members of each group, as the reflector of pods shows them. The key of a group is that of its CachePreload. */
export class Groups {
  readonly #groups = new Map<string, Members>();
  readonly #changed: (key: string) => void;

  constructor(changed: (key: string) => void) {
    this.#changed = changed;
  }

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

  size(key: string): number {
    return this.#groups.get(key)?.size ?? 0;
  }

  members(key: string): Member[] {
    const members = [...(this.#groups.get(key)?.values() ?? [])];
    return members.sort((a, b) => a.createdAt - b.createdAt || (a.name < b.name ? -1 : 1));
  }

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

/** True for a single pod that another client gated, without a plan. */
export function isStray(key: string): boolean {
  return key.includes(`/${strayMark}`);
}

export function groupKey({ namespace, name, preload }: Member): string {
  return `${namespace}/${preload === '' ? strayMark + name : preload}`;
}

/**
 * True when pods wait for a CachePreload that was deleted after the creation of each of them: they start without it.
 * Pods created after the deletion wait for a new one. Both times have whole seconds.
 */
export function isWithdrawn(pods: readonly Member[], deletionTimestamp: string | undefined): boolean {
  if (deletionTimestamp === undefined || pods.length === 0) return false;
  const deletedAt = Date.parse(deletionTimestamp);
  return pods.every(({ createdAt }) => createdAt < deletedAt);
}
