import { epochMs, HearthError } from '@hearth/common';
import type { ClientToken, CreateTokenRequest } from '@hearth/common/generated/hearth/v1/control.ts';
import type { Agent } from '../agent/index.ts';
import { type CapabilityRight, capabilityRights, makeToken } from '../clients/index.ts';
import { formatEndpoint } from '../config/index.ts';
import { checkName } from '../datasets/index.ts';
import { oneOfWords } from './arguments.ts';

/** Namespaces whose pods may have a right beyond reading. */
export interface AdviceGrants {
  adviseNamespaces: readonly string[];
  adviseClusterNamespaces: readonly string[];
}

const noGrants: AdviceGrants = { adviseNamespaces: [], adviseClusterNamespaces: [] };
const minLifeMs = 1_000n;
const maxLifeMs = 86_400_000n;
/** Maximum number of agents in a token; a client tries one after the other. */
const maxAgents = 8;

interface ListedAgent {
  node: string;
  address: string;
}

/** Creates tokens for callers on this node, which pass them on to programs. */
export class TokenCalls {
  readonly #agent: Agent;
  readonly #cluster: string;
  readonly #secret: Uint8Array;
  readonly #grants: AdviceGrants;

  constructor(
    agent: Agent,
    { cluster, secret, grants = noGrants }: { cluster: string; secret: Uint8Array; grants?: AdviceGrants },
  ) {
    this.#grants = grants;
    this.#agent = agent;
    this.#cluster = cluster;
    this.#secret = secret;
  }

  /**
   * Datasets need not exist, because a token may be renewed while one of its datasets is removed. A pod's token is for
   * the listed agents alone, and may advise where its namespace may. Throws `InvalidArgument` for no dataset, for `*`
   * (only holders of the secret may grant all datasets), for half a pod, and for a lifetime out of bounds;
   * `PermissionDenied` for a pod that may not advise, and `Unauthenticated` for one whose tokens are revoked.
   */
  createToken({ datasets, rights, lifeMs, node, podNamespace, podUid }: CreateTokenRequest): ClientToken {
    if (datasets.length === 0) throw new HearthError('InvalidArgument', 'a token needs a dataset; name at least one');
    for (const dataset of datasets) checkName('dataset', dataset);
    if (lifeMs < minLifeMs || lifeMs > maxLifeMs) {
      throw new HearthError('InvalidArgument', `life_ms is ${lifeMs}; it must be 1,000 to 86,400,000 (a day)`);
    }
    const granted = (rights.length === 0 ? ['read'] : rights).map((right) =>
      oneOfWords('rights', right, [...capabilityRights]),
    );
    const cluster = this.#cluster;
    const expiresAt = Math.floor(epochMs(this.#agent.context.clock)) + Number(lifeMs);
    if ((podNamespace === '') !== (podUid === '')) {
      throw new HearthError('InvalidArgument', 'a pod has a namespace and a uid; name both or neither');
    }
    const agents = this.#agents();
    const ofPod = podUid === '' ? {} : this.#ofPod({ namespace: podNamespace, uid: podUid }, granted, agents);
    const token = makeToken({ cluster, node, expiresAt, rights: granted, datasets, ...ofPod }, this.#secret);
    return { token, expiresAtMs: BigInt(expiresAt), cluster, agents: agents.map(({ address }) => address) };
  }

  #ofPod(pod: { namespace: string; uid: string }, rights: readonly CapabilityRight[], agents: readonly ListedAgent[]) {
    if (this.#agent.revocations.isRevoked(pod)) {
      const revoked = `the tokens of pod ${pod.uid} in namespace ${pod.namespace} are revoked`;
      throw new HearthError('Unauthenticated', `${revoked}; hearth revocation ls lists all revocations`);
    }
    const { adviseNamespaces, adviseClusterNamespaces } = this.#grants;
    this.#checkGrant(pod.namespace, rights, 'advise', 'adviseNamespaces', adviseNamespaces);
    this.#checkGrant(pod.namespace, rights, 'advise-cluster', 'adviseClusterNamespaces', adviseClusterNamespaces);
    return { pod, nodes: [...new Set([this.#agent.context.node, ...agents.map(({ node }) => node)])] };
  }

  #checkGrant(
    namespace: string,
    rights: readonly CapabilityRight[],
    right: CapabilityRight,
    setting: keyof AdviceGrants,
    namespaces: readonly string[],
  ): void {
    if (!rights.includes(right) || namespaces.includes(namespace)) return;
    throw new HearthError(
      'PermissionDenied',
      `pods of namespace ${namespace} may not have the right ${right}; an administrator grants it by clients.${setting} of ` +
        'the StorageCluster, or of the configuration of agents',
    );
  }

  /** This agent comes first, because it serves files on its node without a copy. */
  #agents(): ListedAgent[] {
    const { node, members } = this.#agent.context;
    const caching = members.caching();
    const others = members.all().filter((member) => member.node !== node && member.ready && caching.has(member.node));
    const own = members.all().filter((member) => member.node === node);
    return [...own, ...others]
      .flatMap(({ node: name, wire: [first] }) =>
        first === undefined ? [] : [{ node: name, address: `gd2fs://${formatEndpoint(first)}` }],
      )
      .slice(0, maxAgents);
  }
}
