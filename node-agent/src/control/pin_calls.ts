import { HearthError } from '@hearth/common';
import type {
  ListPinsRequest,
  ListPinsResponse,
  PinRequest,
  PinResponse,
  ReleasePinsRequest,
  ReleasePinsResponse,
} from '@hearth/common/generated/hearth/v1/control.ts';
import { PathFilter } from '@hearth/engine';
import type { Agent } from '../agent/index.ts';
import { checkOwner } from '../pins/index.ts';

/** Pins of any agents: pinned files and owners. */
export class PinCalls {
  readonly #agent: Agent;

  constructor(agent: Agent) {
    this.#agent = agent;
  }

  /** A failure of some agents does not undo the pins of others. */
  async pin(request: PinRequest, signal: AbortSignal): Promise<PinResponse> {
    return await this.#ask('pin', request, signal);
  }

  async unpin(request: PinRequest, signal: AbortSignal): Promise<PinResponse> {
    return await this.#ask('unpin', request, signal);
  }

  async listPins({ ownerPrefix }: ListPinsRequest, signal: AbortSignal): Promise<ListPinsResponse> {
    return { pins: await this.#agent.pins.list(ownerPrefix, signal) };
  }

  async releasePins(request: ReleasePinsRequest, signal: AbortSignal): Promise<ReleasePinsResponse> {
    const { ownerPrefix, nodes, exceptOwners } = request;
    if (ownerPrefix === '') {
      throw new HearthError(
        'InvalidArgument',
        'the prefix of the owners is empty; give the prefix of the owners whose pins to release',
      );
    }
    const { pins } = this.#agent;
    const chosen = (await pins.list(ownerPrefix, signal)).filter(
      ({ node, owner }) => (nodes.length === 0 || nodes.includes(node)) && !exceptOwners.includes(owner),
    );
    return { pins: await pins.release(chosen, signal) };
  }

  async #ask(kind: 'pin' | 'unpin', request: PinRequest, signal: AbortSignal): Promise<PinResponse> {
    const { paths, nodes, tolerant, moreOwners } = request;
    const owner = request.owner || 'user';
    for (const one of [owner, ...moreOwners]) checkOwner(one);
    new PathFilter(paths);
    const dataset = request.dataset;
    const manifest = await this.#manifest(kind, request);
    const asked = { kind, dataset, manifest, paths, owner, moreOwners, evict: false };
    const answers = await this.#agent.requests.ask(asked, nodes, signal);
    const done = answers.flatMap(({ node, errorCode }) => (errorCode === undefined ? [node] : []));
    const failures = answers.flatMap(({ node, errorCode, message }) =>
      errorCode === undefined ? [] : [{ node, errorCode, message }],
    );
    const [first] = failures;
    if (first === undefined || tolerant) return { nodes: done, failures };
    const reasons = failures.map(({ node, message }) => `${node}: ${message}`).join('; ');
    throw new HearthError(first.errorCode, `${done.length} of ${answers.length} agents did ${kind}; ${reasons}`);
  }

  async #manifest(kind: 'pin' | 'unpin', { dataset, manifest }: PinRequest): Promise<string> {
    const { datasets } = this.#agent;
    const present = kind === 'pin' ? await datasets.usable(dataset) : await datasets.get(dataset);
    if (manifest === '' || manifest === present.manifest || (await datasets.hasRevision(dataset, manifest))) {
      return manifest || present.manifest;
    }
    throw new HearthError(
      'NotFound',
      `dataset ${dataset} has no revision ${manifest}; hearth dataset ls shows the current one`,
    );
  }
}
