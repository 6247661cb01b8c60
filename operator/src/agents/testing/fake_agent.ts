import {
  type handleServerStreamingCall,
  Server,
  ServerCredentials,
  type ServerWritableStream,
  type UntypedServiceImplementation,
} from '@grpc/grpc-js';
import { type CallName, controlApi, type RequestOf, type ResponseOf, type StreamName } from '@hearth/common';
import { ControlService, GetStatusResponse, NodeStatus } from '@hearth/common/generated/hearth/v1/control.ts';
import { scriptedControl } from '@hearth/common/grpc/testing';
import type { SecretTexts } from '../../kubernetes/index.ts';
import type { AgentEndpoint } from '../agent_connection.ts';

/** Answers of the fake; calls without one fail with UNIMPLEMENTED. */
export type Answers = {
  [Name in CallName]?: (request: RequestOf<Name>) => ResponseOf<Name> | Promise<ResponseOf<Name>>;
} & {
  [Name in Exclude<StreamName, 'watchStatus'>]?: (request: RequestOf<Name>) => AsyncIterable<ResponseOf<Name>>;
};

/** An agent's control API by mutual TLS, scripted by a test. Its status stream says what `publish` was given last. */
export class FakeAgent {
  readonly node: string;
  /** Every request as `[method, request]`. */
  readonly requests: [string, unknown][] = [];
  readonly #texts: SecretTexts;
  readonly #answers: Answers;
  readonly #watchers = new Set<ServerWritableStream<unknown, GetStatusResponse>>();
  #server = new Server();
  #status: GetStatusResponse | undefined;
  #port = 0;
  readonly #host: string;

  private constructor(node: string, texts: SecretTexts, answers: Answers, host: string, port: number) {
    this.node = node;
    this.#texts = texts;
    this.#answers = answers;
    this.#host = host;
    this.#port = port;
  }

  /** `texts`: the agents' Secret of the cluster. */
  static async start(
    node: string,
    texts: SecretTexts,
    answers: Answers = {},
    { host = '127.0.0.1', port = 0 } = {},
  ): Promise<FakeAgent> {
    const agent = new FakeAgent(node, texts, answers, host, port);
    await agent.restart();
    return agent;
  }

  get endpoint(): AgentEndpoint {
    return { node: this.node, address: `${this.#host}:${this.#port}` };
  }

  /** Status streams that are open now. */
  get watchers(): number {
    return this.#watchers.size;
  }

  /** Sends it to all who watch, now and later. */
  publish(status: Partial<GetStatusResponse>): void {
    const api = { apiVersion: controlApi.apiVersion, apiFeatures: [...controlApi.apiFeatures] };
    this.#status = GetStatusResponse.fromPartial({ node: this.node, ...api, ...status });
    for (const watcher of this.#watchers) watcher.write(this.#status);
  }

  /** Connections break and nothing listens. */
  kill(): void {
    this.#server.forceShutdown();
    this.#watchers.clear();
  }

  /** Listens on the same address again. */
  async restart(): Promise<void> {
    this.#server = new Server();
    this.#server.addService(ControlService, this.#implementation());
    const pair = { private_key: Buffer.from(this.#texts['tls.key'] ?? ''), cert_chain: this.#certificate() };
    const secure = ServerCredentials.createSsl(Buffer.from(this.#texts['ca.crt'] ?? ''), [pair], true);
    this.#port = await new Promise<number>((resolve, reject) => {
      this.#server.bindAsync(`${this.#host}:${this.#port}`, secure, (error, port) =>
        error === null ? resolve(port) : reject(error),
      );
    });
  }

  #certificate(): Buffer {
    return Buffer.from(this.#texts['tls.crt'] ?? '');
  }

  #implementation(): UntypedServiceImplementation {
    const request = (name: string, message: unknown) => this.requests.push([name, message]);
    return { ...scriptedControl(this.#answers, { request }), watchStatus: this.#watch() as never };
  }

  #watch(): handleServerStreamingCall<unknown, GetStatusResponse> {
    return (call) => {
      this.requests.push(['watchStatus', call.request]);
      this.#watchers.add(call);
      call.once('cancelled', () => this.#watchers.delete(call));
      if (this.#status !== undefined) call.write(this.#status);
    };
  }
}

/** An agent's report on a node. */
export function nodeStatus(node: string, fields: Partial<NodeStatus> = {}): NodeStatus {
  return NodeStatus.fromPartial({ node, ready: true, ...fields } as never);
}
