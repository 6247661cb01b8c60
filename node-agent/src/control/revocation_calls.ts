import type {
  ListRevocationsResponse,
  RevokeTokensRequest,
  RevokeTokensResponse,
} from '@hearth/common/generated/hearth/v1/control.ts';
import type { Agent } from '../agent/index.ts';
import { oneOfWords } from './arguments.ts';

/** Revokes tokens of clients at all agents. */
export class RevocationCalls {
  readonly #agent: Pick<Agent, 'revocations'>;

  constructor(agent: Pick<Agent, 'revocations'>) {
    this.#agent = agent;
  }

  /** Resolves when the revocation is stored; agents follow in a moment. */
  async revoke({ kind, name }: RevokeTokensRequest, signal: AbortSignal): Promise<RevokeTokensResponse> {
    await this.#agent.revocations.revoke(kindOf(kind), name, { signal });
    return {};
  }

  async permit({ kind, name }: RevokeTokensRequest, signal: AbortSignal): Promise<RevokeTokensResponse> {
    await this.#agent.revocations.permit(kindOf(kind), name, { signal });
    return {};
  }

  async list(signal: AbortSignal): Promise<ListRevocationsResponse> {
    const revocations = await this.#agent.revocations.list({ signal });
    return {
      revocations: revocations.map(({ kind, name, revokedAt }) => {
        return { kind, name, revokedAt: new Date(revokedAt).toISOString() };
      }),
    };
  }
}

function kindOf(kind: string) {
  return oneOfWords('kind', kind, ['token', 'pod', 'namespace']);
}
