import { stat } from 'node:fs/promises';
import { join } from 'node:path';
import { type Clock, HearthError, type Logger, systemClock } from '@hearth/common';
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
import { checkVolume, isOfAnother, recordId, takeBack } from '../records/index.ts';
import { type AccessChoice, registeredName } from '../volume_request.ts';
import type { AccessRecord, AccessRecords } from './access_records.ts';

export interface AccessPublication {
  volume: string;
  /** Normal: `normalTarget`. */
  target: string;
  choice: AccessChoice;
  /** Group that may read the files; undefined: every user of the pod may. */
  group: number | undefined;
  /** True when the kubelet has containers see it read-only. */
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

/** New files for the folder of a record. */
export interface Renewal {
  agent: NodeAgent;
  record: AccessRecord;
  files: readonly FolderEntry[];
}

/** A pod reads on for so long after its node has lost the agent. */
const tokenLifeMs = 3_600_000;

/** Where libgd2fs looks when the volume is mounted at /var/run/hearth. */
const socketLink: FolderEntry = { name: 'clients.sock', link: 'agent/clients.sock' };

/**
 * Folders by which programs of pods use libgd2fs: a token for the Datasets that the volume names, the agents' addresses,
 * the cluster's name, and the agent's folder with the socket for clients of its node, which stays the same folder while
 * agents come and go. Publishing takes these steps, and the same call again finishes what a crash left: 1. the agent
 * makes a token; 2. the record is written; 3. the target folder is made and a file system in memory mounted there; 4. the
 * files are written; 5. the agent's folder is bound. No token is ever on a disk or in a log. Callers hold a lock for the
 * target.
 */
export class ClientAccess {
  readonly #parts: ClientAccessParts;

  constructor(parts: ClientAccessParts) {
    this.#parts = parts;
  }

  /**
   * `INVALID_ARGUMENT` unless containers see the volume read-only: a container could otherwise fill the folder, so that no
   * token could be renewed in it. `NotFound` for a Dataset that is not there.
   */
  async publish(publication: AccessPublication, signal: AbortSignal): Promise<void> {
    const { agents, mounts, records, clock = systemClock } = this.#parts;
    const { volume, target, choice, readOnly } = publication;
    if (!readOnly)
      throw new CsiError('INVALID_ARGUMENT', 'a volume of clientAccess must have readOnly: true in the pod');
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
      // A folder that a pod has already keeps the files of before.
      if (!isMounted) await takeBack(target, (path) => this.#remove(path), this.#parts.logger);
      throw thrown;
    }
  }

  /** False when no folder of client access was published at the target. */
  async unpublish(volume: string, target: string): Promise<boolean> {
    const { records, logger } = this.#parts;
    const record = await records.find(target);
    if (record === undefined) return false;
    if (!isOfAnother(record, volume, logger)) await this.#remove(target);
    return true;
  }

  /**
   * Asks the agent for files with a new token, for `refill`; undefined when the folder has gone. Needs no lock, so that no
   * agent that is slow to answer keeps a volume from being unpublished. Errors as those of the agent.
   */
  async renewal(target: string, signal: AbortSignal): Promise<Renewal | undefined> {
    const found = await this.#parts.records.locate(target);
    if (found === undefined) return undefined;
    const agent = await this.#parts.agents.find(found.cluster);
    return { agent, record: found.record, files: await tokenFiles(agent, found.record, signal) };
  }

  /** Replaces the files of a folder, unless it has gone or is another one by now. */
  async refill({ agent, record, files }: Renewal): Promise<void> {
    const { mounts, records } = this.#parts;
    const present = await records.find(record.target);
    if (present?.volume !== record.volume || present.publishedAt !== record.publishedAt) return;
    if ((await mountAtTarget(mounts, record.target)) !== undefined) await this.#fill(agent, present, files);
  }

  /** Room of the folder at a target; undefined when it is not this volume, or nothing. */
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
    // An agent without such a folder passes no descriptors; its clients read over the network.
    if ((await mountAtTarget(mounts, inside)) !== undefined || !(await isFolder(source))) return;
    await mounts.makeTarget(inside);
    await mounts.bind(source, inside, { noexec: true });
  }

  async #remove(target: string): Promise<void> {
    const { mounts, records } = this.#parts;
    await unmountAll(mounts, agentFolder(target));
    await removeMounted(mounts, records, target);
  }
}

/** A Dataset that is misspelt or not there yet keeps the pod waiting, as it does for a volume with its files. */
async function checkDatasets(agent: NodeAgent, choice: AccessChoice, signal: AbortSignal): Promise<void> {
  const { namespace } = choice;
  for (const dataset of choice.datasets) {
    try {
      await agent.control.call('getDataset', { name: registeredName({ namespace, dataset }) }, { signal });
    } catch (thrown) {
      const what = `clients of StorageCluster ${agent.cluster} cannot read Dataset ${namespace}/${dataset}`;
      const error = HearthError.from(thrown).within(what);
      const advice = `kubectl describe dataset -n ${namespace} ${dataset} says more`;
      throw new HearthError(error.code, `${error.message}; ${advice}`, { cause: error });
    }
  }
}

/** For any node: a client goes on at another agent when that of its node has gone. */
async function tokenFiles(agent: NodeAgent, record: AccessRecord, signal: AbortSignal): Promise<FolderEntry[]> {
  const { datasets, rights } = record;
  const request = { datasets, rights, lifeMs: BigInt(tokenLifeMs), node: '' };
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
