import { listed } from '@hearth/common';
import { datasetOfVolume, type PersistentVolume, type Pod, podVolumes, splitKey } from '@hearth/common/kubernetes';

/** A claim bound to a volume of a Dataset, or a pod with an inline volume, either of which blocks the deletion. */
export interface DatasetUser {
  kind: 'PersistentVolumeClaim' | 'PersistentVolume' | 'Pod';
  /** 'namespace/name', or 'name' of a volume without a claim reference. */
  key: string;
  uid?: string;
}

/** The uses of one object, by the key of the Dataset. */
export type Uses = ReadonlyMap<string, DatasetUser>;

const none: Uses = new Map();

/** True from a volume's creation for a claim until its release. */
export function usesOfVolume(volume: PersistentVolume): Uses {
  const { metadata, spec, status } = volume;
  const dataset = datasetOfVolume(volume);
  const { namespace, name, uid = '' } = spec?.claimRef ?? {};
  const phase = status?.phase ?? 'Pending';
  const used = phase === 'Bound' || (uid !== '' && (phase === 'Pending' || phase === 'Available'));
  if (!used || dataset === undefined) return none;
  const user: DatasetUser =
    namespace !== undefined && name !== undefined
      ? { kind: 'PersistentVolumeClaim', key: `${namespace}/${name}`, uid }
      : { kind: 'PersistentVolume', key: metadata?.name ?? '' };
  return new Map([[`${dataset.namespace}/${dataset.name}`, user]]);
}

/** Inline volumes belong to the pod's namespace. An ended pod uses nothing. */
export function usesOfPod(pod: Pod): Uses {
  const { metadata, status } = pod;
  if (status?.phase === 'Succeeded' || status?.phase === 'Failed') return none;
  const names = podVolumes(pod).flatMap((one) => (one.kind === 'dataset' ? [one.dataset.name] : []));
  if (names.length === 0) return none;
  const namespace = metadata?.namespace ?? '';
  const user: DatasetUser = { kind: 'Pod', key: `${namespace}/${metadata?.name}` };
  return new Map(names.map((name) => [`${namespace}/${name}`, user]));
}

export class DatasetUsers {
  readonly #users = new Map<string, Map<string, DatasetUser>>();
  readonly #changed: (dataset: string) => void;

  constructor(changed: (dataset: string) => void) {
    this.#changed = changed;
  }

  /** `source` distinguishes pods and volumes of one name. */
  update(source: 'volume' | 'pod', object: string, before: Uses = none, after: Uses = none): void {
    const id = `${source}:${object}`;
    for (const dataset of before.keys()) {
      if (after.has(dataset)) continue;
      const users = this.#users.get(dataset);
      users?.delete(id);
      if (users?.size === 0) this.#users.delete(dataset);
      this.#changed(dataset);
    }
    for (const [dataset, user] of after) {
      const users = this.#users.get(dataset) ?? new Map<string, DatasetUser>();
      this.#users.set(dataset, users.set(id, user));
      if (!before.has(dataset)) this.#changed(dataset);
    }
  }

  of(dataset: string): DatasetUser[] {
    const users = [...(this.#users.get(dataset)?.values() ?? [])];
    return users.sort((a, b) => (a.kind + a.key < b.kind + b.key ? -1 : 1));
  }
}

/** Such as `claims a, b and 3 more; pods c`. */
export function describeUsers(users: readonly DatasetUser[]): string {
  const words = { PersistentVolumeClaim: 'claim', PersistentVolume: 'volume', Pod: 'pod' } as const;
  const kinds = ['PersistentVolumeClaim', 'PersistentVolume', 'Pod'] as const;
  const texts = kinds.flatMap((kind) => {
    const keys = users.filter((user) => user.kind === kind).map((user) => user.key);
    if (keys.length === 0) return [];
    return [`${words[kind]}${keys.length === 1 ? '' : 's'} ${listed(keys)}`];
  });
  return texts.join('; ');
}

export function claimsOf(
  users: readonly DatasetUser[],
  most: number,
): { namespace: string; name: string; uid: string }[] {
  return users
    .flatMap(({ kind, key, uid = '' }) => {
      const { namespace = '', name } = splitKey(key);
      return kind === 'PersistentVolumeClaim' ? [{ namespace, name, uid }] : [];
    })
    .slice(0, most);
}
