import type { NodeGroup } from '@hearth/common/resources';
import { hashOf } from '../../kubernetes/index.ts';
import { configMap } from './agent_config.ts';
import { agentDaemonSet } from './agent_daemon_set.ts';
import type { BuildInput, DesiredObject } from './desired_object.ts';
import { etcdDisruptionBudget, etcdStatefulSet } from './etcd_stateful_set.ts';
import { holderDaemonSet } from './holder_daemon_set.ts';
import { agentService, etcdMember, etcdPeers, etcdService } from './services.ts';

export interface DesiredInput extends BuildInput {
  /** The store's address; undefined while unknown, and agents wait. */
  store: string | undefined;
  /** Service addresses of several etcd members; undefined while some are unknown, and etcd waits. */
  members: readonly string[] | undefined;
  /** Hash of the secret and the authorities of origins, which agents read at their start. */
  startHash: string;
  /** Hash of the authorities while there are several: etcd reads them at its start only. */
  trustHash?: string | undefined;
}

/** All objects but Secrets, dependencies first. */
export function desired(input: DesiredInput): DesiredObject[] {
  const { spec } = input.cluster;
  const objects: DesiredObject[] = [];
  if (spec.store.endpoints === undefined) {
    const { replicas = 1 } = spec.store.etcd ?? {};
    objects.push(etcdService(input), etcdPeers(input));
    for (let index = 0; replicas > 1 && index < replicas; index++) objects.push(etcdMember(input, index));
    if (input.members !== undefined) objects.push(etcdStatefulSet(input, input.members, input.trustHash));
    objects.push(etcdDisruptionBudget(input));
  }
  objects.push(agentService(input));
  for (const group of spec.nodeGroups) objects.push(...groupObjects(input, group));
  return objects;
}

function groupObjects(input: DesiredInput, group: NodeGroup): DesiredObject[] {
  const holder = holderDaemonSet({ ...input, group });
  if (input.store === undefined) return [holder];
  const configuration = configMap(input, group, input.store);
  const configurationHash = hashOf([configuration.object, input.startHash]);
  const configurationName = configuration.object.metadata?.name ?? '';
  return [configuration, holder, agentDaemonSet({ ...input, group, configurationHash, configurationName })];
}
