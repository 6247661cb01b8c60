import { type DaemonSet, type KubernetesObject, kinds, type ResourceType } from '@hearth/common/kubernetes';
import { nodeGroupLabel } from '@hearth/common/resources';
import type { AgentEndpoint, ClientIdentity } from '../agents/index.ts';
import type { PlannedSecret } from '../certificates/index.ts';
import { mayBeRead } from './configurations.ts';
import { isCurrent } from './drift.ts';
import type { DesiredObject } from './objects/index.ts';
import type { Observation } from './observation.ts';

export type Action =
  | { kind: 'secret'; secret: PlannedSecret; resourceVersion: string | undefined }
  | { kind: 'apply'; desired: DesiredObject }
  | { kind: 'delete'; type: ResourceType; name: string; uid: string | undefined }
  /** All members restart empty; agents and the operator restore the content. */
  | { kind: 'rebuildStore'; set: KubernetesObject }
  /** Configures the operator's client of the agents. Writes nothing. */
  | { kind: 'connect'; identity: ClientIdentity; endpoints: readonly AgentEndpoint[] };

/** Pure. Secrets precede the pods that mount them, and new objects the deletion of old ones. */
export function plan(observation: Observation): Action[] {
  const { certificates, secretVersions, desired, owned, foreign, store, agents } = observation;
  const actions: Action[] = certificates.write.map((secret) => ({
    kind: 'secret',
    secret,
    resourceVersion: secretVersions[secret.role],
  }));
  const present = new Map(owned.map(({ type, object }) => [keyOf(type, object), object]));
  const wanted = new Set<string>();
  const lost = store?.memberLost ? owned.find(({ type }) => type.kind === 'StatefulSet') : undefined;
  if (lost !== undefined && !isTerminating(lost.object)) actions.push({ kind: 'rebuildStore', set: lost.object });
  for (const one of desired) {
    const key = keyOf(one.type, one.object);
    wanted.add(key);
    const found = present.get(key);
    if (foreign.includes(key) || isCurrent(one.object, found)) continue;
    // A later pass replaces a terminating object.
    if (found !== undefined && (isTerminating(found) || found === lost?.object)) continue;
    // The previous release selected nodes by the group's labels; a new selector would end agents on unlabelled nodes.
    const isSet = one.type.kind === kinds.DaemonSet.kind;
    if (isSet && found !== undefined && observation.unlabelled && isPlacedOtherwise(found, one.object)) continue;
    actions.push({ kind: 'apply', desired: one });
  }
  if (store !== undefined) {
    for (const { type, object } of owned) {
      const { name = '', uid } = object.metadata ?? {};
      if (wanted.has(keyOf(type, object)) || isTerminating(object)) continue;
      if (type.kind === kinds.ConfigMap.kind && mayBeRead(object, observation)) continue;
      if (type.kind === kinds.DaemonSet.kind && isOnNodes(object, observation)) continue;
      actions.push({ kind: 'delete', type, name, uid });
    }
  }
  if (!agents.known) actions.push({ kind: 'connect', identity: agents.identity, endpoints: agents.endpoints });
  return actions;
}

/** The identity of an object in the operator's namespace. */
export function keyOf(type: ResourceType, object: KubernetesObject): string {
  return `${type.kind} ${object.metadata?.name}`;
}

const isTerminating = (object: KubernetesObject): boolean => object.metadata?.deletionTimestamp !== undefined;

const nodeSelectorOf = (object: KubernetesObject) =>
  JSON.stringify((object as DaemonSet).spec?.template.spec?.nodeSelector);

function isPlacedOtherwise(found: KubernetesObject, wanted: KubernetesObject): boolean {
  return nodeSelectorOf(found) !== nodeSelectorOf(wanted);
}

/** True for a removed group while nodes have its label, since pods mount volumes there. */
function isOnNodes({ metadata }: KubernetesObject, { labelledGroups }: Observation): boolean {
  return labelledGroups.has(metadata?.labels?.[nodeGroupLabel] ?? '');
}
