import { experimental } from '@grpc/grpc-js';
import { fromCallError, HearthError, type unaryCall } from '@hearth/common';
import {
  ControlService,
  type GetCredentialsRequest,
  type GetCredentialsResponse,
  type SetCredentialsRequest,
} from '@hearth/common/generated/hearth/v1/control.ts';
import { ReconnectingClient } from '@hearth/common/grpc';
import type { Members } from '../context.ts';
import { agentName, type TlsFiles } from '../tls/index.ts';

const deadlineMs = 5_000;
const connectMs = 3_000;

/** Calls to the control API of other agents, with the certificate shared by all agents of a cluster. */
export interface Peers {
  /** Names of the other agents that can be called. */
  names(): string[];
  setCredentials(node: string, request: SetCredentialsRequest): Promise<void>;
  getCredentials(node: string, request: GetCredentialsRequest): Promise<GetCredentialsResponse>;
  close(): void;
}

/** Peers over mutual TLS: one connection for each, made on first use. A call ends within 5 s even if its host hangs. */
export class TlsPeers implements Peers {
  readonly #node: string;
  readonly #members: Members;
  readonly #files: TlsFiles;
  readonly #serverName: string;
  readonly #clients = new Map<string, ReconnectingClient>();
  readonly #ending = new AbortController();

  constructor(options: { node: string; cluster: string; members: Members; files: TlsFiles }) {
    this.#node = options.node;
    this.#members = options.members;
    this.#files = options.files;
    this.#serverName = agentName(options.cluster);
  }

  names(): string[] {
    const caching = this.#members.caching();
    const others = this.#members.all().filter(({ node, control }) => node !== this.#node && control !== '');
    // An agent without a cache opens no origins and asks for credentials once it has a cache.
    return others.flatMap(({ node }) => (caching.has(node) ? [node] : []));
  }

  async setCredentials(node: string, request: SetCredentialsRequest): Promise<void> {
    await this.#call(node, ControlService.setCredentials, request);
  }

  async getCredentials(node: string, request: GetCredentialsRequest): Promise<GetCredentialsResponse> {
    return await this.#call(node, ControlService.getCredentials, request);
  }

  close(): void {
    this.#ending.abort(new HearthError('Cancelled', 'the agent is ending'));
    for (const client of this.#clients.values()) client.close();
    this.#clients.clear();
  }

  async #call<Request, Response>(
    node: string,
    definition: Parameters<typeof unaryCall<Request, Response>>[1],
    request: Request,
  ): Promise<Response> {
    const address = this.#members.all().find((member) => member.node === node)?.control ?? '';
    if (address === '')
      throw new HearthError('Unavailable', `agent ${node} has no control address; set its control.listen`);
    const callee = `agent ${node}`;
    return await this.#client(address, callee).call(definition, request, {
      deadlineMs,
      signal: this.#ending.signal,
      // Omits the request from the error message.
      failure: (error) => fromCallError(error, (_code, details) => details).within(callee),
    });
  }

  #client(address: string, callee: string): ReconnectingClient {
    const known = this.#clients.get(address);
    if (known !== undefined) return known;
    this.#closeUnused();
    const client = new ReconnectingClient({
      address,
      credentials: experimental.createCertificateProviderChannelCredentials(this.#files, this.#files),
      options: {
        'grpc.ssl_target_name_override': this.#serverName,
        'grpc.enable_http_proxy': 0,
        'grpc.max_reconnect_backoff_ms': 2_000,
      },
      connectMs,
      callee,
    });
    this.#clients.set(address, client);
    return client;
  }

  /** Closes connections to addresses that no member has any more. */
  #closeUnused(): void {
    const used = new Set(this.#members.all().map((member) => member.control));
    for (const [address, client] of this.#clients) {
      if (used.has(address)) continue;
      client.close();
      this.#clients.delete(address);
    }
  }
}
