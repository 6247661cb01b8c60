import type { NodeGroup } from '@hearth/common/resources';
import { hashOf } from '../../kubernetes/index.ts';
import { agentDaemonSet } from './agent_daemon_set.ts';
import { configMap } from './config_map.ts';
import type { BuildInput, DesiredObject } from './desired_object.ts';
import { etcdDisruptionBudget, etcdStatefulSet } from './etcd_stateful_set.ts';
import { holderDaemonSet } from './holder_daemon_set.ts';
import { agentService, etcdMember, etcdPeers, etcdService } from './services.ts';

export interface DesiredInput extends BuildInput {
  /** Where agents find the store; undefined: not known yet, and agents wait. */
  store: string | undefined;
  /** Addresses of the Services of the members of an etcd of several; undefined: not all known yet, and etcd waits. */
  members: readonly string[] | undefined;
  /** Of what agents read at their start beside their ConfigMap: the secret, the authorities of origins. */
  startHash: string;
}

/** All objects but Secrets, in the order in which they are made: what others wait for comes first. */
export function desired(input: DesiredInput): DesiredObject[] {
  const { spec } = input.cluster;
  const objects: DesiredObject[] = [];
  if (spec.store.endpoints === undefined) {
    const { replicas = 1 } = spec.store.etcd ?? {};
    objects.push(etcdService(input), etcdPeers(input));
    for (let index = 0; replicas > 1 && index < replicas; index++) objects.push(etcdMember(input, index));
    if (input.members !== undefined) objects.push(etcdStatefulSet(input, input.members));
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
