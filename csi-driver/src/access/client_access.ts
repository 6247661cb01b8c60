import { stat } from 'node:fs/promises';
import { join } from 'node:path';
import { type Clock, HearthError, type Logger, systemClock } from '@hearth/common';
import { z } from 'zod';
import type { NodeAgent, NodeAgents } from '../agent/index.ts';
import { CsiError } from '../csi_error.ts';
import {
  type FolderEntry,
  type MountCalls,
  mountAtTarget,
  removeMounted,
  type Space,
  unmountAll,
} from '../mounts/index.ts';
import { checkVolume, isOfAnother, RecordFiles, recordId, rollBack } from '../records/index.ts';
import { type AccessChoice, accessRights, registeredName } from '../volume_request.ts';

export interface AccessPublication {
  volume: string;
  /** See `normalTarget`. */
  target: string;
  choice: AccessChoice;
  /** The group of readers; undefined for every user of the pod. */
  group: number | undefined;
  readOnly: boolean;
  pod: AccessRecord['pod'] | undefined;
}

export interface ClientAccessParts {
  agents: Pick<NodeAgents, 'find'>;
  mounts: MountCalls;
  records: Pick<AccessRecords, 'find' | 'locate' | 'write' | 'remove'>;
  logger: Logger;
  clock?: Clock;
}

export type Renewal = { agent: NodeAgent; record: AccessRecord; files: readonly FolderEntry[] };

/** Pods can read for this long after the loss of their node's agent. */
const tokenLifeMs = 3_600_000;

/** libgd2fs looks here in a volume at /var/run/hearth. */
const socketLink: FolderEntry = { name: 'clients.sock', link: 'agent/clients.sock' };

/**
 * Volumes that give programs of a pod access through libgd2fs: a token for the named Datasets, the agents' addresses,
 * the cluster's name, and the agent's directory with the socket for clients, which survives restarts of agents.
 * Publishing takes these steps, and a retry completes them: 1. request a token; 2. write the record; 3. create the
 * target and mount a tmpfs; 4. write the files; 5. bind the agent's directory. No token reaches a disk or a log.
 * Callers hold the lock of the target.
 */
export class ClientAccess {
  readonly #parts: ClientAccessParts;

  constructor(parts: ClientAccessParts) {
    this.#parts = parts;
  }

  /** Throws `INVALID_ARGUMENT` unless `readOnly`, since a container could fill the volume and block renewals. */
  async publish(publication: AccessPublication, signal: AbortSignal): Promise<void> {
    const { agents, mounts, records, clock = systemClock } = this.#parts;
    const { volume, target, choice, readOnly } = publication;
    if (!readOnly)
      throw new CsiError('INVALID_ARGUMENT', 'a volume of clientAccess must have readOnly: true in the pod');
    if (publication.pod === undefined) {
      throw new CsiError(
        'FAILED_PRECONDITION',
        'the kubelet does not name the pod; set podInfoOnMount: true in the CSIDriver object',
      );
    }
    const before = await records.find(target);
    if (before !== undefined) checkVolume(before, volume);
    const agent = await agents.find(choice.cluster);
    await checkDatasets(agent, choice, signal);
    const record = recordOf(publication, clock.date());
    const files = await tokenFiles(agent, record, signal);
    const isMounted = before !== undefined && (await mountAtTarget(mounts, target)) !== undefined;
    await records.write(agent.cluster, record);
    try {
      signal.throwIfAborted();
      if (!isMounted) await this.#mount(target, record.group);
      await this.#fill(agent, record, files);
    } catch (thrown) {
      // A target in use keeps its former files.
      if (!isMounted) await rollBack(target, (path) => this.#remove(path), this.#parts.logger);
      throw thrown;
    }
  }

  /** False when the target has no client access. */
  async unpublish(volume: string, target: string): Promise<boolean> {
    const { records, logger } = this.#parts;
    const record = await records.find(target);
    if (record === undefined) return false;
    if (!isOfAnother(record, volume, logger)) await this.#remove(target);
    return true;
  }

  /** Gets a new token for `refill`, without the lock: a slow agent must not block an unpublish. */
  async renewal(target: string, signal: AbortSignal): Promise<Renewal | undefined> {
    const found = await this.#parts.records.locate(target);
    if (found === undefined) return undefined;
    const agent = await this.#parts.agents.find(found.cluster);
    return { agent, record: found.record, files: await this.#renewedFiles(agent, found.record, signal) };
  }

  /** An administrator may have taken the grant of other rights back: the pod then keeps reading. */
  async #renewedFiles(agent: NodeAgent, record: AccessRecord, signal: AbortSignal): Promise<FolderEntry[]> {
    try {
      return await tokenFiles(agent, record, signal);
    } catch (thrown) {
      const error = HearthError.from(thrown);
      const reads = record.rights.filter((right) => right === 'read');
      if (error.code !== 'PermissionDenied' || reads.length === 0 || reads.length === record.rights.length) throw error;
      this.#parts.logger.warn('a pod may only read from now on', { target: record.target, error });
      return await tokenFiles(agent, { ...record, rights: reads }, signal);
    }
  }

  /** Replaces the files, unless the target was removed or published again. */
  async refill({ agent, record, files }: Renewal): Promise<void> {
    const { mounts, records } = this.#parts;
    const present = await records.find(record.target);
    if (present?.volume !== record.volume || present.publishedAt !== record.publishedAt) return;
    if ((await mountAtTarget(mounts, record.target)) !== undefined) await this.#fill(agent, present, files);
  }

  /** Space at the target; undefined unless this volume is mounted there. */
  async space(volume: string, target: string): Promise<Space | undefined> {
    const { mounts, records } = this.#parts;
    if ((await records.find(target))?.volume !== volume) return undefined;
    return (await mountAtTarget(mounts, target)) === undefined ? undefined : await mounts.space(target);
  }

  async #mount(target: string, group: number | undefined): Promise<void> {
    const { mounts } = this.#parts;
    await unmountAll(mounts, target);
    await mounts.makeTarget(target);
    await mounts.memory(target, group);
  }

  async #fill(agent: NodeAgent, { target, group }: AccessRecord, files: readonly FolderEntry[]): Promise<void> {
    const { mounts } = this.#parts;
    await mounts.replace(target, files, group);
    const inside = agentFolder(target);
    const source = join(agent.directory, 'run', 'clients');
    // An older agent passes no descriptors; its clients read over the network.
    if ((await mountAtTarget(mounts, inside)) !== undefined || !(await isFolder(source))) return;
    await mounts.makeTarget(inside);
    await mounts.shareSockets(source);
    await mounts.bind(source, inside, { noexec: true });
  }

  async #remove(target: string): Promise<void> {
    const { mounts, records } = this.#parts;
    await unmountAll(mounts, agentFolder(target));
    await removeMounted(mounts, records, target);
  }
}

/** A missing Dataset keeps the pod pending, as for volumes with files. */
async function checkDatasets(agent: NodeAgent, choice: AccessChoice, signal: AbortSignal): Promise<void> {
  const { namespace } = choice;
  for (const dataset of choice.datasets) {
    try {
      const request = { name: registeredName({ namespace, dataset }), recordsOnly: true };
      await agent.control.call('getDataset', request, { signal });
    } catch (thrown) {
      const what = `clients of StorageCluster ${agent.cluster} cannot read Dataset ${namespace}/${dataset}`;
      const error = HearthError.from(thrown).within(what);
      const advice = `kubectl describe dataset -n ${namespace} ${dataset} says more`;
      throw new HearthError(error.code, `${error.message}; ${advice}`, { cause: error });
    }
  }
}

/** Valid at the agents that it lists, since clients fail over to other agents. */
async function tokenFiles(agent: NodeAgent, record: AccessRecord, signal: AbortSignal): Promise<FolderEntry[]> {
  const { datasets, pod } = record;
  // Agents trust callers that name no pod; records of an earlier release may name none.
  const rights = pod === undefined ? ['read'] : record.rights;
  const request = {
    datasets,
    rights,
    lifeMs: BigInt(tokenLifeMs),
    node: '',
    podNamespace: pod?.namespace ?? '',
    podUid: pod?.uid ?? '',
  };
  const { token, cluster, agents } = await agent.control.call('createToken', request, { signal });
  return [
    { name: 'token', text: token },
    { name: 'addresses', text: agents.join(',') },
    { name: 'cluster', text: cluster },
    socketLink,
  ];
}

function agentFolder(target: string): string {
  return join(target, 'agent');
}

function recordOf({ volume, target, choice, group, pod }: AccessPublication, at: Date): AccessRecord {
  const { namespace, datasets, rights } = choice;
  return {
    id: recordId(target),
    volume,
    target,
    datasets: datasets.map((dataset) => registeredName({ namespace, dataset })),
    rights,
    ...(group === undefined ? {} : { group }),
    ...(pod === undefined ? {} : { pod }),
    publishedAt: at.toISOString(),
  };
}

async function isFolder(path: string): Promise<boolean> {
  return await stat(path).then(
    (found) => found.isDirectory(),
    () => false,
  );
}

const accessSchema = z.object({
  id: z.string(),
  volume: z.string(),
  target: z.string(),
  datasets: z.array(z.string()),
  rights: z.array(z.enum(accessRights)),
  /** The group of readers; absent: every user of the pod. */
  group: z.number().optional(),
  pod: z.object({ namespace: z.string(), name: z.string(), uid: z.string() }).optional(),
  publishedAt: z.string(),
});
export type AccessRecord = z.output<typeof accessSchema>;

/** `<state>/<cluster>/client-access/<id>.json` precedes its mount and outlives it. */
export class AccessRecords extends RecordFiles<AccessRecord> {
  constructor(stateDirectory: string, logger: Logger) {
    super(stateDirectory, logger, 'client-access', accessSchema);
  }
}
