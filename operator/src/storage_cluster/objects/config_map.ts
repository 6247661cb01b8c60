import { type ConfigMap, kinds } from '@hearth/common/kubernetes';
import type { NodeGroup } from '@hearth/common/resources';
import { hashOf } from '../../kubernetes/index.ts';
import { groupName, labelsOf } from '../names.ts';
import { agentConfig } from './agent_config.ts';
import { type BuildInput, type DesiredObject, desiredObject } from './desired_object.ts';

/** Hexadecimal digits of the content's hash in a name. */
const digits = 10;

/**
 * The configuration of a node group's agents. Holds no secrets. It never changes: another content has another name, and
 * pods name the one that they were made with. So an agent that begins again in the middle of an upgrade, or of the way
 * back, reads what the operator of its own release wrote, and no setting that it does not know.
 */
export function configMap(input: BuildInput, group: NodeGroup, store: string): DesiredObject<ConfigMap> {
  const { name } = input.cluster.metadata;
  const data = { 'agent.yaml': agentConfig(input.cluster, group, store) };
  const unique = `${groupName(name, group.name)}-${hashOf(data).slice(0, digits)}`;
  return desiredObject(input, kinds.ConfigMap, unique, labelsOf(name, 'agent', group.name), { data, immutable: true });
}
