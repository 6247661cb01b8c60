import { HearthError } from '@hearth/common';
import type {
  GetCredentialsRequest,
  GetCredentialsResponse,
  SetCredentialsRequest,
  SetCredentialsResponse,
} from '@hearth/common/generated/hearth/v1/control.ts';
import type { Agent } from '../agent/index.ts';
import { checkName } from '../datasets/index.ts';
import { agentName } from '../tls/index.ts';
import type { Caller } from './handlers.ts';

const none = { token: '', accessKeyId: '', secretAccessKey: '', sessionToken: '' };

/** Credentials of datasets: any permitted caller may set them; only agents of the cluster may read them. */
export class CredentialCalls {
  readonly #agent: Agent;
  readonly #agentName: string;

  constructor(agent: Agent, cluster: string) {
    this.#agent = agent;
    this.#agentName = agentName(cluster);
  }

  async setCredentials(
    request: SetCredentialsRequest,
    caller: Caller,
    signal: AbortSignal,
  ): Promise<SetCredentialsResponse> {
    const { dataset, credentials = none } = request;
    checkName('dataset', dataset);
    // The first agent has sent the credentials to all others, so do not forward again.
    if (this.#isAgent(caller)) this.#agent.credentialSharing.take(dataset, credentials);
    else await this.#agent.credentialSharing.set(dataset, credentials, signal);
    return {};
  }

  async getCredentials({ dataset }: GetCredentialsRequest, caller: Caller): Promise<GetCredentialsResponse> {
    if (!this.#isAgent(caller)) {
      throw new HearthError(
        'PermissionDenied',
        `only agents of this cluster may read credentials, with a certificate for ${this.#agentName}`,
      );
    }
    const cache = this.#agent.credentials;
    return cache.has(dataset)
      ? { known: true, credentials: cache.of(dataset) }
      : { known: false, credentials: undefined };
  }

  #isAgent(caller: Caller): boolean {
    return caller.names.includes(this.#agentName);
  }
}
