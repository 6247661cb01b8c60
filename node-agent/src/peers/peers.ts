import { credentials, experimental } from '@grpc/grpc-js';
import { fromCallError, HearthError, serverStream, type unaryCall } from '@hearth/common';
import {
  ControlService,
  type GetCredentialsRequest,
  type GetCredentialsResponse,
  type NodeReport,
  type SetCredentialsRequest,
} from '@hearth/common/generated/hearth/v1/control.ts';
import { ReconnectingClient } from '@hearth/common/grpc';
import type { Member, Members } from '../context.ts';
import { agentName, type TlsFiles } from '../tls/index.ts';

const deadlineMs = 5_000;
const connectMs = 3_000;
/** Whoever asks for the figures of all agents waits for the slowest one. */
const reportMs = 3_000;
/** gRPC drops a connection that no call has used for this time, so that asking all agents leaves nothing behind. */
const idleMs = 60_000;

/** Calls to the control API of other agents. */
export interface Peers {
  /** Names of the other agents that take this agent's certificate, which all agents of a cluster share. */
  names(): string[];
  setCredentials(node: string, request: SetCredentialsRequest): Promise<void>;
  getCredentials(node: string, request: GetCredentialsRequest): Promise<GetCredentialsResponse>;
  /** The agent's whole report, of the given datasets or of all. Throws within 3 s. */
  report(node: string, datasets: readonly string[], signal: AbortSignal): Promise<NodeReport[]>;
  close(): void;
}

/**
 * Peers over mutual TLS, or over the Unix sockets of agents that share this machine's store: one connection for each,
 * made on first use. A call ends within 5 s even if its host hangs.
 */
export class AgentPeers implements Peers {
  readonly #node: string;
  readonly #members: Members;
  readonly #files: TlsFiles | undefined;
  readonly #serverName: string;
  readonly #clients = new Map<string, ReconnectingClient>();
  readonly #ending = new AbortController();

  /** `files` undefined: this agent has no certificate, and calls agents of its machine only. */
  constructor(options: { node: string; cluster: string; members: Members; files: TlsFiles | undefined }) {
    this.#node = options.node;
    this.#members = options.members;
    this.#files = options.files;
    this.#serverName = agentName(options.cluster);
  }

  names(): string[] {
    if (this.#files === undefined) return [];
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

  async report(node: string, datasets: readonly string[], signal: AbortSignal): Promise<NodeReport[]> {
    const request = { intervalMs: 0, known: undefined, once: true, datasets: [...datasets] };
    const member = this.#members.all().find((one) => one.node === node);
    const callee = `agent ${node}`;
    const ending = AbortSignal.any([signal, this.#ending.signal]);
    const parts: NodeReport[] = [];
    try {
      const client = await this.#clientOf(member, node).connected(connectMs, ending);
      const limits = { signal: ending, deadlineMs: reportMs };
      for await (const part of serverStream<typeof request, NodeReport>(
        client,
        ControlService.watchNode,
        request,
        limits,
      )) {
        parts.push(part);
      }
    } catch (thrown) {
      if (thrown instanceof HearthError) throw thrown;
      throw fromCallError(thrown, (_code, details) => details).within(callee);
    }
    return parts;
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
    const callee = `agent ${node}`;
    const member = this.#members.all().find((one) => one.node === node);
    if (member === undefined || member.control === '') throw unreachable(node);
    return await this.#client(member.control, callee).call(definition, request, {
      deadlineMs,
      signal: this.#ending.signal,
      // Omits the request from the error message.
      failure: (error) => fromCallError(error, (_code, details) => details).within(callee),
    });
  }

  #clientOf(member: Member | undefined, node: string): ReconnectingClient {
    const callee = `agent ${node}`;
    if (member === undefined) throw new HearthError('Unavailable', `${callee} has gone`);
    if (member.control !== '' && this.#files !== undefined) return this.#client(member.control, callee);
    if (member.socket !== '') return this.#client(`unix:${member.socket}`, callee);
    throw unreachable(node);
  }

  #client(address: string, callee: string): ReconnectingClient {
    const known = this.#clients.get(address);
    if (known !== undefined) return known;
    this.#closeUnused();
    const files = address.startsWith('unix:') ? undefined : this.#files;
    const client = new ReconnectingClient({
      address,
      credentials:
        files === undefined
          ? credentials.createInsecure()
          : experimental.createCertificateProviderChannelCredentials(files, files),
      options: {
        ...(files === undefined
          ? { 'grpc.default_authority': 'localhost' }
          : { 'grpc.ssl_target_name_override': this.#serverName }),
        'grpc.enable_http_proxy': 0,
        'grpc.max_reconnect_backoff_ms': 2_000,
        'grpc.client_idle_timeout_ms': idleMs,
      },
      connectMs,
      callee,
    });
    this.#clients.set(address, client);
    return client;
  }

  /** Closes connections to addresses that no member has any more. */
  #closeUnused(): void {
    const used = new Set(this.#members.all().flatMap(({ control, socket }) => [control, `unix:${socket}`]));
    for (const [address, client] of this.#clients) {
      if (used.has(address)) continue;
      client.close();
      this.#clients.delete(address);
    }
  }
}

function unreachable(node: string): HearthError {
  return new HearthError('Unavailable', `other agents cannot call agent ${node}; set control.listen of both agents`);
}
