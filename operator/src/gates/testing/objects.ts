import type { Pod } from '@hearth/common/kubernetes';
import { type Dataset, type Gate, gate } from '@hearth/common/resources';
import { manifest } from '../../dataset/testing/fixtures.ts';
import type { ClaimView, Known, VolumeFacts } from '../pod_datasets.ts';

export const megabyte = 1_000_000;

/** A Dataset of namespace `team` that can be used. */
export function datasetOf(name: string, given: Partial<Gate> | undefined, bytes = megabyte): Dataset {
  return {
    apiVersion: 'hearth.storage/v1alpha1',
    kind: 'Dataset',
    metadata: { namespace: 'team', name, uid: `uid-${name}` },
    spec: {
      source: { selfTest: {} },
      include: [],
      exclude: [],
      unusableNames: 'Fail',
      weakValidators: 'Refuse',
      lastCopy: 'Drop',
      ...(given === undefined ? {} : { gate: gate.parse(given) }),
    },
    status: { cluster: 'main', manifest, bytes, files: 1 },
  };
}

/** A claim that asks for a Dataset and has no volume yet; without a name: one of others. */
export function claimOf(dataset: string | undefined, volume = ''): ClaimView {
  return { pending: undefined, volume, dataset };
}

export function volumeOf(registered: string): VolumeFacts {
  return { ours: { dataset: registered } as NonNullable<VolumeFacts['ours']> };
}

/** By the keys of the reflectors. */
export function known(objects: {
  claims?: Record<string, ClaimView>;
  volumes?: Record<string, VolumeFacts>;
  datasets?: Dataset[];
}): Known {
  const datasets = new Map(
    (objects.datasets ?? []).map((one) => [`${one.metadata.namespace}/${one.metadata.name}`, one]),
  );
  return {
    claim: (key) => objects.claims?.[key],
    volume: (name) => objects.volumes?.[name],
    dataset: (key) => datasets.get(key),
  };
}

type Volumes = NonNullable<NonNullable<Pod['spec']>['volumes']>;

export const inline = (dataset: string): Volumes[number] => ({
  name: dataset,
  csi: { driver: 'csi.hearth.storage', volumeAttributes: { dataset } },
});

export const claimed = (claimName: string): Volumes[number] => ({
  name: claimName,
  persistentVolumeClaim: { claimName },
});

/** A pod of namespace `team` as it reaches admission, or with what is added to it later. */
export function podOf(
  name: string,
  volumes: Volumes,
  fields: { metadata?: Pod['metadata']; spec?: Partial<NonNullable<Pod['spec']>>; status?: Pod['status'] } = {},
): Pod {
  return {
    apiVersion: 'v1',
    kind: 'Pod',
    metadata: { name, namespace: 'team', uid: `uid-${name}`, resourceVersion: '1', ...fields.metadata },
    spec: { containers: [{ name: 'main', image: 'none' }], volumes, ...fields.spec },
    ...(fields.status === undefined ? {} : { status: fields.status }),
  };
}

/** A ReplicaSet, or another kind, that controls a pod. */
export function ownedBy(name: string, kind = 'ReplicaSet') {
  return [{ apiVersion: 'apps/v1', kind, name, uid: `uid-${name}`, controller: true, blockOwnerDeletion: true }];
}
