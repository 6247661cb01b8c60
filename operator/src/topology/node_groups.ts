import type { Logger } from '@hearth/common';
import {
  type Applied,
  type ConfigMap,
  hasNewSpec,
  type KubernetesClient,
  kinds,
  runController,
  watch,
} from '@hearth/common/kubernetes';
import { nodeGroupsConfigMap, nodeGroupsFile } from '@hearth/common/names';
import type { NodeGroup, StorageCluster } from '@hearth/common/resources';
import { type Expression, labelsOfOperator, type Source, termsOf } from '../kubernetes/index.ts';
import { type Reconciler, reconcileKey } from '../reconciler/index.ts';

export interface NodeGroupsOptions {
  api: Pick<KubernetesClient, 'apply'>;
  namespace: string;
  clusters: Pick<Source<StorageCluster>, 'all'>;
  configMaps: Pick<Source<ConfigMap>, 'get'>;
}

type ObservedGroups = { wanted: string; present: string | undefined };

type WriteGroups = { kind: 'write'; text: string };

/** Keeps the ConfigMap of node groups for csi-node, which has no access to the API server. Keys have no meaning. */
export class NodeGroupsReconciler implements Reconciler<string, ObservedGroups, WriteGroups> {
  readonly #options: NodeGroupsOptions;

  constructor(options: NodeGroupsOptions) {
    this.#options = options;
  }

  async observe(): Promise<ObservedGroups> {
    const { clusters, configMaps, namespace } = this.#options;
    const present = configMaps.get(`${namespace}/${nodeGroupsConfigMap}`)?.data?.[nodeGroupsFile];
    return { wanted: nodeGroupsText(clusters.all()), present };
  }

  plan(_key: string, { wanted, present }: ObservedGroups): WriteGroups[] {
    return wanted === present ? [] : [{ kind: 'write', text: wanted }];
  }

  async apply({ text }: WriteGroups, _key: string, signal: AbortSignal): Promise<void> {
    const { api, namespace } = this.#options;
    const object: Applied<ConfigMap> = {
      metadata: { name: nodeGroupsConfigMap, namespace, labels: labelsOfOperator('csi-node') },
      data: { [nodeGroupsFile]: text },
    };
    await api.apply(kinds.ConfigMap, object, { signal });
  }
}

/** Pure. Selectors as `kubectl label` takes them, and further requirements in words. */
export function nodeGroupsText(clusters: readonly StorageCluster[]): string {
  const present = clusters.filter(({ metadata }) => metadata.deletionTimestamp === undefined);
  const groups = present.map(({ metadata, spec }) => [
    metadata.name,
    spec.nodeGroups.map((group) => ({
      name: group.name,
      selector: Object.entries(group.nodeSelector)
        .map(([key, value]) => `${key}=${value}`)
        .sort()
        .join(','),
      further: furtherOf(group),
    })),
  ]);
  return `${JSON.stringify(Object.fromEntries(groups.sort(([a], [b]) => ((a as string) < (b as string) ? -1 : 1))), null, 2)}\n`;
}

function furtherOf(group: NodeGroup): string {
  const alternatives = termsOf(group).map(({ matchExpressions }) => matchExpressions.map(describe).join(' and '));
  const words = alternatives.length === 0 ? [] : [`label ${alternatives.join(', or ')}`];
  if (group.tolerations !== undefined) words.push('no taint but those that the group tolerates');
  return words.join(' and ');
}

function describe({ key, operator, values }: Expression): string {
  return [key, operator, ...(values.length === 0 ? [] : [`(${values.join(', ')})`])].join(' ');
}

export async function runNodeGroupsController(
  options: NodeGroupsOptions & { clusters: Source<StorageCluster>; configMaps: Source<ConfigMap>; logger: Logger },
  signal: AbortSignal,
): Promise<void> {
  const { clusters, configMaps, namespace, logger } = options;
  const configMap = `${namespace}/${nodeGroupsConfigMap}`;
  await runController({
    name: 'node-groups',
    workers: 1,
    watches: [
      watch(clusters, (_name, before, after) => (hasNewSpec(before, after) ? [nodeGroupsConfigMap] : [])),
      watch(configMaps, (key) => (key === configMap ? [nodeGroupsConfigMap] : [])),
    ],
    first: () => [nodeGroupsConfigMap],
    reconcile: reconcileKey(new NodeGroupsReconciler(options), (key) => key),
    logger,
    signal,
  });
}
