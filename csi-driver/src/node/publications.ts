import { type Clock, HearthError, type Logger, systemClock } from '@hearth/common';
import type { PublishedVolume } from '@hearth/common/generated/hearth/v1/control.ts';
import type { NodeAgent, NodeAgents } from '../agent/index.ts';
import { CsiError } from '../csi_error.ts';
import {
  isBarrier,
  isReadOnly,
  isRestricted,
  isWriteProtected,
  type MountCalls,
  type MountEntry,
  maxMounts,
  mountAt,
  mountAtTarget,
  removeMounted,
  showSame,
  unmountAll,
} from '../mounts/index.ts';
import { checkVolume, isOfAnother, recordId, takeBack } from '../records/index.ts';
import { type DatasetChoice, registeredName, type Usage } from '../volume_request.ts';
import { type PublishedRecord, type PublishedRecords, withRebinding } from './published_records.ts';
import { type Remedy, remedyOf } from './rebinding.ts';

export interface Publication {
  volume: string;
  /** Normal: `normalTarget`. */
  target: string;
  choice: DatasetChoice;
  usage: Usage;
  /** True when the kubelet has containers see it read-only. */
  readOnly: boolean;
  pod: PublishedRecord['pod'] | undefined;
}

export interface PublicationsParts {
  agents: Pick<NodeAgents, 'find'>;
  mounts: MountCalls;
  records: Pick<PublishedRecords, 'find' | 'all' | 'write' | 'remove'>;
  logger: Logger;
  clock?: Clock;
}

/**
 * Publications on this node. Publishing takes these steps, and a crash may leave any number of them done: 1. the agent
 * makes the revision readable; 2. the record is written; 3. the target folder is made; 4. the agent's mount is bound to
 * it, or overlaid; 5. the mount there is made read-only. The same call again finishes them: with the mount in place it
 * begins at 5, else at 1 with the present revision. Unpublishing goes back from any of them, and neither it nor
 * statistics need an agent. Callers hold a lock for the target, and for the volume when only one target is allowed.
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
    if (present !== undefined && record?.volume === volume && isSafe(present, publication)) {
      return await this.#restrict(target, usage, present);
    }
    if (present !== undefined && record !== undefined) checkVolume(record, volume);
    if (usage.singleTarget) await this.#checkSingleTarget(volume, target);
    const { agent, published } = await this.#askAgent(publication, signal);
    const source = await this.#visible(published, agent);
    await records.write(agent.cluster, recordOf(publication, published, (clock ?? systemClock).date()));
    try {
      signal.throwIfAborted();
      if (present === undefined || !showSame(present, source) || !isSafe(present, publication)) {
        if (present !== undefined) await unmountAll(mounts, target);
        await mounts.makeTarget(target);
        if (isSafe(source, publication)) await mounts.bind(published.path, target, usage);
        else await mounts.overlay(published.path, target, usage);
        await this.#checkStillThere(published.path, source);
      }
      await this.#restrict(target, usage, await mountAtTarget(mounts, target));
    } catch (thrown) {
      await takeBack(target, (path) => removeMounted(mounts, records, path), logger);
      throw thrown;
    }
  }

  /** Nothing there is no error: that is what was asked for. */
  async unpublish(volume: string, target: string): Promise<void> {
    const { mounts, records, logger } = this.#parts;
    const record = await records.find(target);
    if (record !== undefined && isOfAnother(record, volume, logger)) return;
    await removeMounted(mounts, records, target);
  }

  /**
   * True when a target shows a mount that its agent lost, because agent and holder went together: then rebind() binds
   * the agent's present mount of the same revision over the dead one; views have no server to lose. Open files, and
   * containers that do not see later mounts (mountPropagation other than HostToContainer), keep the dead mount. The
   * steps: 1. the record says so; 2. of piled-up mounts all but the lowest go; 3. the agent's mount is bound over the
   * rest; 4. it gets the restrictions of the mount below. A mount is at the target between any two steps, and the
   * mounts alone tell the remaining steps, so the same call after a failure or a death finishes them. `at`: the time of
   * mounts found dead together, of which a pod hears once.
   */
  async rebind(cluster: string, target: string, agentMounts: string, at: Date): Promise<boolean> {
    const { mounts, records, logger } = this.#parts;
    const record = await records.find(target);
    const path = record === undefined ? undefined : await mounts.resolve(target);
    if (record === undefined || path === undefined) return false;
    const remedy = remedyOf(record, path, await mounts.table(), agentMounts);
    if (remedy.kind === 'none') return false;
    const usage = { singleTarget: false, noexec: remedy.noexec };
    if (remedy.kind === 'restrict') {
      await this.#restrict(target, usage, remedy.present);
      return false;
    }
    const { source } = remedy;
    const changed = withRebinding(record, source, at);
    if (changed !== record) await records.write(cluster, changed);
    if (remedy.kind === 'came') await this.#restrict(target, usage, remedy.present);
    else await this.#bindOver(target, remedy, usage);
    const { volume, pod } = record;
    const advice = 'restart the pod unless its containers mount the volume with HostToContainer';
    logger.warn('bound a volume again that had lost its mount', { volume, target, pod, advice });
    return true;
  }

  /**
   * Keeps containers from starting with a dead mount: a barrier is mounted over it, until `rebind` binds a living one over
   * both. Without it a container that restarts in between would have the dead mount for good. The record says so first, for
   * agents to report. `device`: the dead file system; when something else is at the target by now, nothing is done.
   */
  async bar(cluster: string, target: string, device: string, at: Date): Promise<boolean> {
    const { mounts, records, logger } = this.#parts;
    const record = await records.find(target);
    if (record === undefined || (await mountAtTarget(mounts, target))?.device !== device) return false;
    if (record.lostAt === undefined) await records.write(cluster, { ...record, lostAt: at.toISOString() });
    await mounts.bar(target);
    const { volume, pod } = record;
    logger.warn('barred the dead mount of a volume; its containers start when it is bound again', {
      volume,
      target,
      pod,
    });
    return true;
  }

  async #bindOver(target: string, { source, layers }: Extract<Remedy, { kind: 'bind' }>, usage: Usage): Promise<void> {
    const { mounts } = this.#parts;
    for (let piled = layers; layers + 1 >= maxMounts && piled > 1; piled--) await mounts.unmount(target);
    await mounts.bindOver(source.mountPoint, target, usage);
    try {
      await this.#restrict(target, usage, await mountAtTarget(mounts, target));
      await this.#checkStillThere(source.mountPoint, source);
    } catch (thrown) {
      await mounts.unmount(target);
      throw thrown;
    }
  }

  /** The record of what is mounted at a target; undefined when it is not this volume, or nothing. */
  async published(volume: string, target: string): Promise<PublishedRecord | undefined> {
    const record = await this.#parts.records.find(target);
    if (record?.volume !== volume) return undefined;
    return (await mountAtTarget(this.#parts.mounts, target)) === undefined ? undefined : record;
  }

  async #askAgent({ choice }: Publication, signal: AbortSignal) {
    const agent = await this.#parts.agents.find(choice.cluster);
    const request = { dataset: registeredName(choice), manifest: choice.revision };
    try {
      return { agent, published: await agent.control.call('publishVolume', request, { signal }) };
    } catch (thrown) {
      const { namespace, dataset } = choice;
      const error = HearthError.from(thrown).within(
        `Dataset ${namespace}/${dataset} of StorageCluster ${agent.cluster} cannot be published`,
      );
      // Why an agent knows no such dataset, a Secret that may not be read for one, stands in the Dataset alone.
      const advice = `kubectl describe dataset -n ${namespace} ${dataset} says more`;
      throw new HearthError(error.code, `${error.message}; ${advice}`, { cause: error });
    }
  }

  /** Without mount propagation the path would be an empty folder here, and the pod would find no files. */
  async #visible(published: PublishedVolume, agent: NodeAgent): Promise<MountEntry> {
    const { path } = published;
    if (!path.startsWith(`${agent.directory}/mounts/`) || path.includes('/../')) {
      throw new CsiError('INTERNAL', `the agent answered with ${path}, which is not below ${agent.directory}/mounts`);
    }
    const source = mountAt(await this.#parts.mounts.table(), path);
    if (source !== undefined) return source;
    throw new CsiError(
      'FAILED_PRECONDITION',
      `the agent's mount ${path} is not seen by this process; give both of them the folder ${agent.directory} of the host, the agent with mountPropagation Bidirectional and this one with HostToContainer`,
    );
  }

  /**
   * Until the record is written the agent may remove its mount, as when the dataset is removed at this moment; what
   * was bound then is the empty folder below it. From the record on it stays.
   */
  async #checkStillThere(path: string, source: MountEntry): Promise<void> {
    if (mountAt(await this.#parts.mounts.table(), path)?.id === source.id) return;
    throw new CsiError(
      'FAILED_PRECONDITION',
      `the agent removed its mount ${path} during the publish, as it does when a dataset is removed; the kubelet tries again`,
    );
  }

  async #restrict(target: string, usage: Usage, present: MountEntry | undefined): Promise<void> {
    const { mounts } = this.#parts;
    if (present !== undefined && isRestricted(present, usage)) return;
    await mounts.restrict(target, usage);
    const after = await mountAtTarget(mounts, target);
    if (after !== undefined && isReadOnly(after)) return;
    throw new CsiError('INTERNAL', `the mount at ${target} did not become read-only; look at the node's kernel log`);
  }

  async #checkSingleTarget(volume: string, target: string): Promise<void> {
    const { mounts, records } = this.#parts;
    for (const { record } of await records.all()) {
      if (record?.volume !== volume || record.target === target) continue;
      if ((await mountAtTarget(mounts, record.target)) === undefined) continue;
      throw new CsiError(
        'FAILED_PRECONDITION',
        `volume ${volume} may be used by one pod at a time (ReadWriteOncePod) and is published at ${record.target}; wait for that pod to end, or ask for ReadOnlyMany`,
      );
    }
  }
}

/**
 * True when containers may get a mount as it is. The flag of a mount is not enough: for a volume that the kubelet does
 * not consider read-only it asks for a writable mount, and runc (since 1.2) then takes the flag off its own bind mount,
 * so that root in a container could write into the cache.
 */
function isSafe(mount: MountEntry, { readOnly }: Publication): boolean {
  return readOnly || isWriteProtected(mount);
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
    publishedAt: at.toISOString(),
  };
}
