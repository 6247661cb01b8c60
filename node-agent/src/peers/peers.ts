import { type Client, experimental, Metadata, type ServiceError } from '@grpc/grpc-js';
import { fromCallError, HearthError } from '@hearth/common';
import {
  ControlClient,
  type GetCredentialsRequest,
  type GetCredentialsResponse,
  type SetCredentialsRequest,
} from '@hearth/common/generated/hearth/v1/control.ts';
import type { Members } from '../context.ts';
import { agentName, type TlsFiles } from '../tls/index.ts';

const deadlineMs = 5_000;

/** Calls to the control API of the other agents, with the certificate that all agents of a cluster share. */
export interface Peers {
  /** Names of the other agents that can be called. */
  names(): string[];
  setCredentials(node: string, request: SetCredentialsRequest): Promise<void>;
  getCredentials(node: string, request: GetCredentialsRequest): Promise<GetCredentialsResponse>;
  close(): void;
}

type Answer<R> = (error: ServiceError | null, response: R) => void;

/** Peers by mutual TLS. One connection for each, made when it is first used. */
export class TlsPeers implements Peers {
  readonly #node: string;
  readonly #members: Members;
  readonly #files: TlsFiles;
  readonly #serverName: string;
  readonly #clients = new Map<string, ControlClient>();

  constructor(options: { node: string; cluster: string; members: Members; files: TlsFiles }) {
    this.#node = options.node;
    this.#members = options.members;
    this.#files = options.files;
    this.#serverName = agentName(options.cluster);
  }

  names(): string[] {
    const caching = this.#members.caching();
    const others = this.#members.all().filter(({ node, control }) => node !== this.#node && control !== '');
    // Who has no cache opens no origins, and asks for credentials when it has one.
    return others.flatMap(({ node }) => (caching.has(node) ? [node] : []));
  }

  async setCredentials(node: string, request: SetCredentialsRequest): Promise<void> {
    await this.#call(node, (client, metadata, options, answer) =>
      client.setCredentials(request, metadata, options, answer),
    );
  }

  async getCredentials(node: string, request: GetCredentialsRequest): Promise<GetCredentialsResponse> {
    return await this.#call(node, (client, metadata, options, answer) =>
      client.getCredentials(request, metadata, options, answer),
    );
  }

  close(): void {
    for (const client of this.#clients.values()) client.close();
    this.#clients.clear();
  }

  async #call<R>(
    node: string,
    put: (client: ControlClient, metadata: Metadata, options: { deadline: number }, answer: Answer<R>) => unknown,
  ): Promise<R> {
    const address = this.#members.all().find((member) => member.node === node)?.control ?? '';
    if (address === '')
      throw new HearthError('Unavailable', `agent ${node} has no control address; set control.listen there`);
    return await new Promise((resolve, reject) => {
      put(this.#client(address), new Metadata(), { deadline: Date.now() + deadlineMs }, (error, response) => {
        if (error === null) resolve(response);
        // What was asked is in no message.
        else reject(fromCallError(error, (_code, details) => details).within(`agent ${node}`));
      });
    });
  }

  #client(address: string): ControlClient {
    const known = this.#clients.get(address);
    if (known !== undefined) return known;
    this.#closeUnused();
    const secure = experimental.createCertificateProviderChannelCredentials(this.#files, this.#files);
    const client = new ControlClient(address, secure, {
      'grpc.ssl_target_name_override': this.#serverName,
      'grpc.enable_http_proxy': 0,
      'grpc.max_reconnect_backoff_ms': 2_000,
    });
    this.#clients.set(address, client);
    return client;
  }

  /** Addresses that no member has any more. */
  #closeUnused(): void {
    const used = new Set(this.#members.all().map((member) => member.control));
    for (const [address, client] of this.#clients as Map<string, Client>) {
      if (used.has(address)) continue;
      client.close();
      this.#clients.delete(address);
    }
  }
}
