import { isAbsolute, normalize } from 'node:path';
import { HearthError } from '@hearth/common';
import type {
  EvictRequest,
  EvictResponse,
  ListMountsResponse,
  MountRecord,
  MountRequest,
  PinRequest,
  PinResponse,
  UnmountRequest,
  UnmountResponse,
} from '@hearth/common/generated/hearth/v1/control.ts';
import type { Agent } from '../agent/agent.ts';
import { checkName, PathFilter } from '../datasets/index.ts';
import { oneOfWords } from './arguments.ts';
import { mountMessage } from './convert.ts';

/** Calls about what agents hold: mounts of this one, pins and eviction on any. */
export class NodeCalls {
  readonly #agent: Agent;

  constructor(agent: Agent) {
    this.#agent = agent;
  }

  async mount(request: MountRequest, signal: AbortSignal): Promise<MountRecord> {
    const dataPath = oneOfWords('data_path', request.dataPath || 'auto', ['auto', 'view', 'fuse', 'daemon']);
    this.#agent.lastUse.note(request.dataset);
    return mountMessage(await this.#agent.mounts.mount(request.dataset, checkTarget(request.target), dataPath, signal));
  }

  async unmount(request: UnmountRequest): Promise<UnmountResponse> {
    await this.#agent.mounts.unmount(checkTarget(request.target));
    return {};
  }

  async listMounts(): Promise<ListMountsResponse> {
    return { mounts: (await this.#agent.mounts.list()).map(mountMessage) };
  }

  /** Fails when any agent failed, naming each; those that did it stay pinned. */
  async pin(request: PinRequest, signal: AbortSignal): Promise<PinResponse> {
    return await this.#pinOrUnpin('pin', request, signal);
  }

  async unpin(request: PinRequest, signal: AbortSignal): Promise<PinResponse> {
    return await this.#pinOrUnpin('unpin', request, signal);
  }

  /** What each agent freed, and why it did not where it did not. */
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

  async #pinOrUnpin(kind: 'pin' | 'unpin', request: PinRequest, signal: AbortSignal): Promise<PinResponse> {
    const { dataset, paths, nodes } = request;
    const owner = request.owner || 'user';
    checkName('pin owner', owner.replace(/^job:/, ''));
    const { manifest } = await (kind === 'pin'
      ? this.#agent.datasets.usable(dataset)
      : this.#agent.datasets.get(dataset));
    new PathFilter(paths);
    const answers = await this.#agent.requests.ask(
      { kind, dataset, manifest, paths, owner, evict: false },
      nodes,
      signal,
    );
    const failed = answers.filter((answer) => answer.errorCode !== undefined);
    if (failed.length === 0) return { nodes: answers.map((answer) => answer.node) };
    const reasons = failed.map(({ node, message }) => `${node}: ${message}`).join('; ');
    const done = answers.length - failed.length;
    throw new HearthError(
      failed[0]?.errorCode ?? 'Internal',
      `${kind} was done by ${done} of ${answers.length} agents; ${reasons}`,
    );
  }
}

function checkTarget(target: string): string {
  const clean = normalize(target).replace(/(.)\/+$/, '$1');
  if (isAbsolute(target) && clean !== '/') return clean;
  throw new HearthError('InvalidArgument', `the mount point "${target}" must be an absolute path other than "/"`);
}
