import { epochMs, HearthError } from '@hearth/common';
import type { ClientToken, CreateTokenRequest } from '@hearth/common/generated/hearth/v1/control.ts';
import type { Agent } from '../agent/index.ts';
import { makeToken } from '../clients/index.ts';
import { formatEndpoint } from '../config/index.ts';
import { checkName } from '../datasets/index.ts';
import { oneOfWords } from './arguments.ts';

const minLifeMs = 1_000n;
const maxLifeMs = 86_400_000n;
/** Maximum number of agents in a token; a client tries one after the other. */
const maxAgents = 8;

/** Creates tokens for callers on this node, which pass them on to programs. */
export class TokenCalls {
  readonly #agent: Agent;
  readonly #cluster: string;
  readonly #secret: Uint8Array;

  constructor(agent: Agent, { cluster, secret }: { cluster: string; secret: Uint8Array }) {
    this.#agent = agent;
    this.#cluster = cluster;
    this.#secret = secret;
  }

  /**
   * Datasets need not exist, because a token may be renewed while one of its datasets is removed. Throws
   * `InvalidArgument` for no dataset, for `*` (only holders of the secret may grant all datasets), for half a pod, and for
   * a lifetime out of bounds.
   */
  createToken({ datasets, rights, lifeMs, node, podNamespace, podUid }: CreateTokenRequest): ClientToken {
    if (datasets.length === 0) throw new HearthError('InvalidArgument', 'a token needs a dataset; name at least one');
    for (const dataset of datasets) checkName('dataset', dataset);
    if (lifeMs < minLifeMs || lifeMs > maxLifeMs) {
      throw new HearthError('InvalidArgument', `life_ms is ${lifeMs}; it must be 1,000 to 86,400,000 (a day)`);
    }
    const granted = (rights.length === 0 ? ['read'] : rights).map((right) =>
      oneOfWords('rights', right, ['read', 'advise']),
    );
    const cluster = this.#cluster;
    const expiresAt = Math.floor(epochMs(this.#agent.context.clock)) + Number(lifeMs);
    if ((podNamespace === '') !== (podUid === '')) {
      throw new HearthError('InvalidArgument', 'a pod has a namespace and a uid; name both or neither');
    }
    const pod = podUid === '' ? {} : { pod: { namespace: podNamespace, uid: podUid } };
    const token = makeToken({ cluster, node, expiresAt, rights: granted, datasets, ...pod }, this.#secret);
    return { token, expiresAtMs: BigInt(expiresAt), cluster, agents: this.#agents() };
  }

  /** This agent comes first, because it serves files on its node without a copy. */
  #agents(): string[] {
    const { node, members } = this.#agent.context;
    const caching = members.caching();
    const others = members.all().filter((member) => member.node !== node && member.ready && caching.has(member.node));
    const own = members.all().filter((member) => member.node === node);
    return [...own, ...others]
      .flatMap(({ wire: [first] }) => (first === undefined ? [] : [`gd2fs://${formatEndpoint(first)}`]))
      .slice(0, maxAgents);
  }
}
