import { createHash } from 'node:crypto';
import { HearthError, ignoring } from '@hearth/common';
import type { Agents, ClusterAgents } from '../agents/index.ts';
import type { VolumeRequest } from './claim_plan.ts';

/** Agents of earlier releases do not know the calls. */
const feature = 'writable-volumes';
const resizeFeature = 'volume-resize';

/** Writable volumes of claims, which agents keep under the names of their PersistentVolumes. Throws HearthError. */
export class ScratchVolumes {
  readonly #agents: Pick<Agents, 'get'>;

  constructor(agents: Pick<Agents, 'get'>) {
    this.#agents = agents;
  }

  /** Idempotent. Returns the node that has the log of names: that of the first pod, if it is known, else any one. */
  async create({ name, claim, cluster, capacityBytes }: VolumeRequest, signal: AbortSignal): Promise<string> {
    const agents = this.#of(cluster.metadata.name);
    const node = logNode(name, claim.selectedNode, agents);
    const request = { name, kind: 'scratch', maxBytes: capacityBytes, maxFiles: 0n, deadlineMs: 0n };
    const options = { signal, feature, ...(node === undefined ? {} : { node }) };
    return (await agents.call('createWritableVolume', request, options)).logNode;
  }

  /**
   * Idempotent. Returns the limit, which is higher than asked for when a claim took back a part of an earlier request: a
   * volume does not shrink.
   */
  async resize(cluster: string, name: string, maxBytes: bigint, signal: AbortSignal): Promise<bigint> {
    const agents = this.#of(cluster);
    const present = await agents.call('getWritableVolume', { name }, { signal, feature: resizeFeature });
    if (present.maxBytes >= maxBytes) return present.maxBytes;
    const resized = await agents.call('resizeWritableVolume', { name, maxBytes }, { signal, feature: resizeFeature });
    return resized.maxBytes;
  }

  /** Removes the files, too. Idempotent. Throws `InUse` while a node has the volume mounted. */
  async delete(cluster: string, name: string, signal: AbortSignal): Promise<void> {
    const request = { name, force: false };
    await this.#of(cluster).call('deleteWritableVolume', request, { signal, feature }).catch(ignoring('NotFound'));
  }

  #of(cluster: string): ClusterAgents {
    const agents = this.#agents.get(cluster);
    if (agents !== undefined) return agents;
    throw new HearthError('Unavailable', `StorageCluster ${cluster} has no agents yet; kubectl describe it`);
  }
}

/** Rendezvous hashing spreads the logs over nodes. Undefined: no agent that could have the log has reported. */
function logNode(volume: string, selected: string, { status }: ClusterAgents): string | undefined {
  const able = [...(status?.nodes.values() ?? [])].filter((one) => one.ready && one.apiFeatures.includes(feature));
  const names = able.map(({ node }) => node);
  if (names.includes(selected)) return selected;
  const weight = (node: string) => createHash('sha256').update(`${volume} ${node}`).digest('hex');
  return names.sort((a, b) => (weight(a) < weight(b) ? -1 : 1))[0];
}
