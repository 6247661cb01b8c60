import type { Pod } from '@hearth/common/kubernetes';
import { type Dataset, type Gate, preloadAnnotation, preloadGateName } from '@hearth/common/resources';

export const isGated = ({ spec }: Pod): boolean =>
  spec?.schedulingGates?.some(({ name }) => name === preloadGateName) ?? false;

export const planOf = ({ metadata }: Pod): string => metadata?.annotations?.[preloadAnnotation] ?? '';

/** Host names that a released pod is sent to, by its one wish or its one requirement. */
export function hostsOf({ spec }: Pod): string[] {
  const affinity = spec?.affinity?.nodeAffinity;
  const terms = [
    ...(affinity?.preferredDuringSchedulingIgnoredDuringExecution ?? []).map(({ preference }) => preference),
    ...(affinity?.requiredDuringSchedulingIgnoredDuringExecution?.nodeSelectorTerms ?? []),
  ];
  const expressions = terms.flatMap(({ matchExpressions = [] }) => matchExpressions);
  return expressions.flatMap(({ key, values = [] }) => (key === 'kubernetes.io/hostname' ? values : []));
}

export function datasetObject(
  name: string,
  gate: Partial<Gate> | undefined,
  namespace = 'default',
): Pick<Dataset, 'kind'> {
  return {
    apiVersion: 'hearth.storage/v1alpha1',
    kind: 'Dataset',
    metadata: { name, namespace },
    spec: { source: { selfTest: {} }, ...(gate === undefined ? {} : { gate }) },
  } as never;
}

export function claimObject(name: string, dataset: string | undefined, namespace = 'default'): object {
  const dataSourceRef = { apiGroup: 'hearth.storage', kind: 'Dataset', name: dataset };
  return {
    apiVersion: 'v1',
    kind: 'PersistentVolumeClaim',
    metadata: { name, namespace },
    spec: {
      accessModes: ['ReadOnlyMany'],
      storageClassName: dataset === undefined ? 'disks' : 'hearth',
      resources: { requests: { storage: '1Gi' } },
      ...(dataset === undefined ? {} : { dataSourceRef }),
    },
  };
}

/** A pod that mounts Datasets inline, or claims. */
export function podObject(
  name: string,
  mounts: { datasets?: string[]; claims?: string[] },
  fields: { metadata?: Pod['metadata']; spec?: Partial<NonNullable<Pod['spec']>> } = {},
): Pod {
  const { datasets = [], claims = [] } = mounts;
  return {
    apiVersion: 'v1',
    kind: 'Pod',
    metadata: { name, namespace: 'default', ...fields.metadata },
    spec: {
      containers: [{ name: 'main', image: 'none', resources: { requests: { cpu: '100m' } } }],
      volumes: [
        ...datasets.map((dataset) => ({
          name: `d-${dataset}`,
          csi: { driver: 'csi.hearth.storage', volumeAttributes: { dataset } },
        })),
        ...claims.map((claimName) => ({ name: `c-${claimName}`, persistentVolumeClaim: { claimName } })),
      ],
      ...fields.spec,
    },
  };
}
