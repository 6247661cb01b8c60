import { type ConfigMap, kinds } from '@hearth/common/kubernetes';
import type { NodeGroup } from '@hearth/common/resources';
import { groupName, labelsOf } from '../names.ts';
import { agentConfig } from './agent_config.ts';
import { type BuildInput, type DesiredObject, desiredObject } from './desired_object.ts';

/** The configuration of a node group's agents. Holds no secrets. */
export function configMap(input: BuildInput, group: NodeGroup, store: string): DesiredObject<ConfigMap> {
  const { name } = input.cluster.metadata;
  return desiredObject(input, kinds.ConfigMap, groupName(name, group.name), labelsOf(name, 'agent', group.name), {
    data: { 'agent.yaml': agentConfig(input.cluster, group, store) },
  });
}
