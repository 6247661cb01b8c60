import { isAbsolute, normalize } from 'node:path';
import { HearthError } from '@hearth/common';
import type {
  EvictRequest,
  EvictResponse,
  ListMountsResponse,
  MountRecord,
  MountRequest,
  UnmountRequest,
  UnmountResponse,
} from '@hearth/common/generated/hearth/v1/control.ts';
import { PathFilter } from '@hearth/engine';
import type { Agent } from '../agent/index.ts';
import { volumeName } from '../mounts/index.ts';
import { oneOfWords } from './arguments.ts';
import { mountMessage } from './convert.ts';

/** Calls about bytes on agents: mounts of this agent, eviction on any. */
export class NodeCalls {
  readonly #agent: Agent;

  constructor(agent: Agent) {
    this.#agent = agent;
  }

  async mount(request: MountRequest, signal: AbortSignal): Promise<MountRecord> {
    const dataPath = oneOfWords('data_path', request.dataPath || 'auto', ['auto', 'view', 'fuse', 'daemon']);
    const target = checkTarget(request.target);
    const volume = volumeName(request.dataset);
    if (volume !== undefined) return await this.#mountVolume(volume, request, target, signal);
    this.#agent.usage.began(request.dataset);
    return mountMessage(await this.#agent.mounts.mount(request.dataset, target, dataPath, signal));
  }

  async #mountVolume(
    name: string,
    { dataPath }: MountRequest,
    target: string,
    signal: AbortSignal,
  ): Promise<MountRecord> {
    if (!['', 'auto', 'fuse'].includes(dataPath)) {
      throw new HearthError('InvalidArgument', `a writable volume has no data path ${dataPath}; leave the path out`);
    }
    return mountMessage(await this.#agent.mounts.mountVolume(await this.#agent.openVolume(name, signal), target));
  }

  async unmount(request: UnmountRequest): Promise<UnmountResponse> {
    await this.#agent.mounts.unmount(checkTarget(request.target));
    return {};
  }

  async listMounts(): Promise<ListMountsResponse> {
    return { mounts: (await this.#agent.mounts.list()).map(mountMessage) };
  }

  /** The bytes freed by each agent, or the reason of its failure. */
  async evict({ dataset, paths, nodes }: EvictRequest, signal: AbortSignal): Promise<EvictResponse> {
    const { manifest } = await this.#agent.datasets.usable(dataset, true);
    new PathFilter(paths);
    const asked = { kind: 'evict' as const, dataset, manifest, paths, owner: '', evict: true };
    const answers = await this.#agent.requests.ask(asked, nodes, signal);
    return {
      nodes: answers.map(({ node, bytesFreed, filesFreed, filesKept, message }) => ({
        node,
        bytesFreed,
        filesFreed: BigInt(filesFreed),
        filesKept: BigInt(filesKept),
        message,
      })),
    };
  }
}

function checkTarget(target: string): string {
  const clean = normalize(target).replace(/(.)\/+$/, '$1');
  if (isAbsolute(target) && clean !== '/') return clean;
  throw new HearthError('InvalidArgument', `the mount point "${target}" must be an absolute path other than "/"`);
}
