import { type Clock, HearthError, type Logger, systemClock } from '@hearth/common';
import type { PublishedVolume } from '@hearth/common/generated/hearth/v1/control.ts';
import type { NodeAgent, NodeAgents } from '../agent/index.ts';
import { CsiError, failedPrecondition } from '../csi_error.ts';
import {
  hasLabels,
  isBarrier,
  isMappable,
  isRestricted,
  isWriteProtected,
  type MountCalls,
  type MountEntry,
  maxMounts,
  mountAt,
  mountAtTarget,
  removeMounted,
  type Space,
  showSame,
  unmountAll,
} from '../mounts/index.ts';
import { checkVolume, isOfAnother, recordId, rollBack } from '../records/index.ts';
import { choiceOf, type DatasetChoice, registeredName, type Usage, type VolumeChoice } from '../volume_request.ts';
import { type PublishedRecord, type PublishedRecords, withRebinding } from './published_records.ts';
import { type Remedy, remedyOf } from './rebinding.ts';

export interface Publication {
  volume: string;
  /** See `normalTarget`. */
  target: string;
  choice: DatasetChoice | VolumeChoice;
  usage: Usage;
  readOnly: boolean;
  /** May write, if anybody may; undefined: as the files say. */
  group?: number | undefined;
  pod: PublishedRecord['pod'] | undefined;
}

export interface PublicationsParts {
  agents: Pick<NodeAgents, 'find'>;
  mounts: MountCalls;
  records: Pick<PublishedRecords, 'find' | 'all' | 'write' | 'remove'>;
  /** True when the pod of a target is known to have a user namespace of its own; absent: no pod has one. */
  mapsIds?: (target: string) => Promise<boolean>;
  logger: Logger;
  clock?: Clock;
}

/**
 * Publications on this node. Publishing takes these steps, and a retry completes them after a crash: 1. the agent makes
 * the revision readable; 2. write the record; 3. create the target; 4. bind or overlay the agent's mount; 5. make the
 * mount read-only, or let a group write. A retry starts at 5 with the mount in place, else at 1 with the present revision. Unpublishing
 * undoes any of them; like statistics, it needs no agent. Callers hold the lock of the target, and of the volume if
 * only one target is allowed.
 */
export class Publications {
  readonly #parts: PublicationsParts;

  constructor(parts: PublicationsParts) {
    this.#parts = parts;
  }

  async publish(publication: Publication, signal: AbortSignal): Promise<void> {
    const { mounts, records, logger, clock } = this.#parts;
    const { volume, target, usage } = publication;
    const present = await mountAtTarget(mounts, target);
    const record = await records.find(target);
    if (present !== undefined && record?.volume === volume && isBarrier(present)) {
      throw new CsiError(
        'UNAVAILABLE',
        `the mount of volume ${volume} died with the agent and the mount holder of this node; it is bound again when they are back: look at their pods`,
      );
    }
    const mapsIds = (await this.#parts.mapsIds?.(target)) ?? false;
    const suits = (mount: MountEntry) => isSafe(mount, publication) && (!mapsIds || isMappable(mount));
    if (present !== undefined && record?.volume === volume && suits(present)) {
      await this.#restrict(target, usage, present);
      return await this.#share(publication);
    }
    if (present !== undefined && record !== undefined) checkVolume(record, volume);
    if (usage.singleTarget) await this.#checkSingleTarget(volume, target);
    const { agent, published, source } = await this.#askAgent(publication.choice, mapsIds, signal);
    await records.write(agent.cluster, recordOf(publication, published, (clock ?? systemClock).date()));
    try {
      signal.throwIfAborted();
      if (present === undefined || !showSame(present, source) || !suits(present)) {
        if (present !== undefined) await unmountAll(mounts, target);
        await mounts.makeTarget(target);
        if (isSafe(source, publication)) await mounts.bind(published.path, target, usage);
        else await mounts.overlay(published.path, target, usage);
        await this.#checkStillMounted(published.path, source);
      }
      await this.#restrict(target, usage, await mountAtTarget(mounts, target));
      await this.#share(publication);
    } catch (thrown) {
      await rollBack(target, (path) => removeMounted(mounts, records, path), logger);
      throw thrown;
    }
  }

  async unpublish(volume: string, target: string): Promise<void> {
    const { mounts, records, logger } = this.#parts;
    const record = await records.find(target);
    if (record !== undefined && isOfAnother(record, volume, logger)) return;
    await removeMounted(mounts, records, target);
  }

  /**
   * Binds the agent's present mount of the same revision over a mount that died with agent and holder. Views have no
   * server. Open files, and containers without HostToContainer, keep the dead mount. Steps: 1. update the record; 2.
   * unmount all but the lowest of stacked mounts; 3. bind the agent's mount; 4. apply the restrictions. The target is
   * always mounted in between, and the mounts alone tell the remaining steps, so a retry completes them. `at`: the
   * common time of mounts found dead together. Returns true after a rebinding.
   */
  async rebind(cluster: string, target: string, agentMounts: string, at: Date): Promise<boolean> {
    const { mounts, records, logger } = this.#parts;
    const record = await records.find(target);
    const path = record === undefined ? undefined : await mounts.resolve(target);
    if (record === undefined || path === undefined) return false;
    const remedy = remedyOf(record, path, await mounts.table(), agentMounts);
    if (remedy.kind === 'none') return false;
    const usage = { singleTarget: false, noexec: remedy.noexec, writable: record.writable ?? false };
    if (remedy.kind === 'restrict') {
      await this.#restrict(target, usage, remedy.present);
      return false;
    }
    const { source } = remedy;
    const changed = withRebinding(record, source, at);
    if (changed !== record) await records.write(cluster, changed);
    if (remedy.kind === 'propagated') await this.#restrict(target, usage, remedy.present);
    else await this.#bindOver(target, remedy, usage);
    const { volume, pod } = record;
    const advice = 'restart the pod unless its containers mount the volume with HostToContainer';
    logger.warn('bound a volume again that had lost its mount', { volume, target, pod, advice });
    return true;
  }

  /**
   * Mounts a barrier over a dead mount until `rebind`, or a restarting container would keep the dead mount for good.
   * Updates the record first, which agents report. Does nothing unless the target still shows `device`, the dead file
   * system.
   */
  async bar(cluster: string, target: string, device: string, at: Date): Promise<boolean> {
    const { mounts, records, logger } = this.#parts;
    const record = await records.find(target);
    if (record === undefined || (await mountAtTarget(mounts, target))?.device !== device) return false;
    if (record.lostAt === undefined) await records.write(cluster, { ...record, lostAt: at.toISOString() });
    await mounts.bar(target);
    const { volume, pod } = record;
    const fields = { volume, target, pod };
    logger.warn('barred the dead mount of a volume; its containers start when it is bound again', fields);
    return true;
  }

  async #bindOver(target: string, { source, layers }: Pick<Binding, 'source' | 'layers'>, usage: Usage): Promise<void> {
    const { mounts } = this.#parts;
    for (let stacked = layers; layers + 1 >= maxMounts && stacked > 1; stacked--) await mounts.unmount(target);
    await mounts.bindOver(source.mountPoint, target, usage);
    try {
      await this.#restrict(target, usage, await mountAtTarget(mounts, target));
      await this.#checkStillMounted(source.mountPoint, source);
    } catch (thrown) {
      await mounts.unmount(target);
      throw thrown;
    }
  }

  /**
   * Binds the agent's FUSE mount over a mount whose ids a container runtime cannot map, once the pod turned out to have
   * a user namespace. Steps: 1. update the record; 2. bind; 3. restrict. The target is always mounted in between, and
   * the mounts alone tell the remaining steps. Returns false when nothing is to do.
   */
  async makeMappable(cluster: string, target: string, signal: AbortSignal): Promise<boolean> {
    const { mounts, records, logger } = this.#parts;
    const record = await records.find(target);
    const path = record === undefined ? undefined : await mounts.resolve(target);
    if (record === undefined || path === undefined) return false;
    const layers = (await mounts.table()).filter((entry) => entry.mountPoint === path);
    const present = mountAt(layers, path);
    if (present === undefined || isMappable(present)) return false;
    const { volume, pod, noexec = false, writable = false } = record;
    const choice = choiceOf(cluster, record.dataset, record.manifest);
    const { published, source } = await this.#askAgent(choice, true, signal);
    // The next look of `Rebinding` knows the mount by its device.
    await records.write(cluster, { ...record, dataPath: published.dataPath, reboundTo: source.device });
    await this.#bindOver(target, { source, layers: layers.length }, { singleTarget: false, noexec, writable });
    logger.info('bound a volume again for a pod with a user namespace', { volume, target, pod });
    return true;
  }

  /** The record of a mounted target; undefined unless this volume is mounted there. */
  async published(volume: string, target: string): Promise<PublishedRecord | undefined> {
    const record = await this.#parts.records.find(target);
    if (record?.volume !== volume) return undefined;
    return (await mountAtTarget(this.#parts.mounts, target)) === undefined ? undefined : record;
  }

  /** The limits of a writable volume, and what is left of them. Throws when its leader does not answer in time. */
  async space(record: PublishedRecord): Promise<Space | undefined> {
    if (!('volume' in choiceOf('', record.dataset, ''))) return undefined;
    return await this.#parts.mounts.space(record.target);
  }

  /** Returns the agent's mount, and its entry in the table. */
  async #askAgent(choice: DatasetChoice | VolumeChoice, mapsIds: boolean, signal: AbortSignal) {
    const agent = await this.#parts.agents.find(choice.cluster);
    const manifest = 'volume' in choice ? '' : choice.revision;
    const request = { dataset: registeredName(choice), manifest, mapsIds };
    let published: PublishedVolume;
    try {
      published = await agent.control.call('publishVolume', request, { signal });
    } catch (thrown) {
      throw refusal(choice, agent.cluster, thrown);
    }
    const source = await this.#visible(published, agent);
    if (!mapsIds || isMappable(source)) return { agent, published, source };
    throw failedPrecondition(
      `the agent of StorageCluster ${agent.cluster} gives no mount whose ids can be mapped, which pods with hostUsers: false need; upgrade the agent`,
    );
  }

  /** Without mount propagation the path would be an empty directory. */
  async #visible(published: PublishedVolume, agent: NodeAgent): Promise<MountEntry> {
    const { path } = published;
    if (!path.startsWith(`${agent.directory}/mounts/`) || path.includes('/../')) {
      throw new CsiError('INTERNAL', `the agent answered with ${path}, which is not below ${agent.directory}/mounts`);
    }
    const source = mountAt(await this.#parts.mounts.table(), path);
    if (source !== undefined) return source;
    throw failedPrecondition(
      `the agent's mount ${path} is not seen by this process; give both of them the folder ${agent.directory} of the host, the agent with mountPropagation Bidirectional and this one with HostToContainer`,
    );
  }

  /** Before the record exists the agent may remove its mount, and the bind would show the empty directory below. */
  async #checkStillMounted(path: string, source: MountEntry): Promise<void> {
    if (mountAt(await this.#parts.mounts.table(), path)?.id === source.id) return;
    throw failedPrecondition(
      `the agent removed its mount ${path} during the publish, as it does when a dataset is removed; the kubelet tries again`,
    );
  }

  async #restrict(target: string, usage: Usage, present: MountEntry | undefined): Promise<void> {
    const { mounts } = this.#parts;
    if (present !== undefined && isRestricted(present, usage)) return;
    await mounts.restrict(target, usage);
    const after = await mountAtTarget(mounts, target);
    if (after !== undefined && isRestricted(after, usage)) return;
    throw new CsiError(
      'INTERNAL',
      `the mount at ${target} did not get its restrictions; look at the node's kernel log`,
    );
  }

  async #share({ target, usage, group }: Publication): Promise<void> {
    if (usage.writable && group !== undefined) await this.#parts.mounts.shareWith(target, group);
  }

  async #checkSingleTarget(volume: string, target: string): Promise<void> {
    const { mounts, records } = this.#parts;
    for (const { record } of await records.all()) {
      if (record?.volume !== volume || record.target === target) continue;
      if ((await mountAtTarget(mounts, record.target)) === undefined) continue;
      throw failedPrecondition(
        `volume ${volume} may be used by one pod at a time (ReadWriteOncePod) and is published at ${record.target}; wait for that pod to end, or ask for ReadOnlyMany`,
      );
    }
  }
}

type Binding = Extract<Remedy, { kind: 'bind' }>;

/**
 * True when containers may use the mount as it is. Its flag does not suffice: for volumes that the kubelet mounts
 * writable, runc (since 1.2) clears the flag on its own bind mount, so that root could write into the cache.
 */
function isSafe(mount: MountEntry, { readOnly, usage }: Publication): boolean {
  return !hasLabels(mount) && (readOnly || usage.writable || isWriteProtected(mount));
}

function refusal(choice: DatasetChoice | VolumeChoice, cluster: string, thrown: unknown): HearthError {
  const failure = HearthError.from(thrown);
  if ('volume' in choice)
    return failure.within(`volume ${choice.volume} of StorageCluster ${cluster} cannot be published`);
  const { namespace, dataset } = choice;
  const error = failure.within(`Dataset ${namespace}/${dataset} of StorageCluster ${cluster} cannot be published`);
  // Only the Dataset explains why agents do not know it, such as an unreadable Secret.
  const advice = `kubectl describe dataset -n ${namespace} ${dataset} says more`;
  return new HearthError(error.code, `${error.message}; ${advice}`, { cause: error });
}

function recordOf(
  { volume, target, choice, usage, pod }: Publication,
  published: PublishedVolume,
  at: Date,
): PublishedRecord {
  return {
    id: recordId(target),
    volume,
    target,
    dataset: registeredName(choice),
    manifest: published.manifest,
    dataPath: published.dataPath,
    bytes: published.bytes,
    files: published.files,
    ...(pod === undefined ? {} : { pod }),
    ...(usage.noexec ? { noexec: true } : {}),
    ...(usage.writable ? { writable: true } : {}),
    publishedAt: at.toISOString(),
  };
}
