import {
  type handleServerStreamingCall,
  type handleUnaryCall,
  Metadata,
  Server,
  ServerCredentials,
  type ServerWritableStream,
  type UntypedHandleCall,
} from '@grpc/grpc-js';
import { controlApi, HearthError } from '@hearth/common';
import { ControlService, GetStatusResponse, NodeStatus } from '@hearth/common/generated/hearth/v1/control.ts';
import type { SecretTexts } from '../../certificates/index.ts';
import type { AgentEndpoint } from '../agent_connection.ts';
import type { CallName, RequestOf, ResponseOf, StreamName } from '../agents.ts';

type Service = typeof ControlService;

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
    this.#server.addService(ControlService, this.#handlers() as never);
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

  #handlers(): Record<string, UntypedHandleCall> {
    const handlers: Record<string, UntypedHandleCall> = { watchStatus: this.#watch() };
    for (const [name, answer] of Object.entries(this.#answers)) {
      const streams = ControlService[name as keyof Service].responseStream;
      const script = answer as (request: unknown) => unknown;
      handlers[name] = streams ? this.#streaming(name, script) : this.#unary(name, script);
    }
    return handlers;
  }

  #watch(): handleServerStreamingCall<unknown, GetStatusResponse> {
    return (call) => {
      this.requests.push(['watchStatus', call.request]);
      this.#watchers.add(call);
      call.once('cancelled', () => this.#watchers.delete(call));
      if (this.#status !== undefined) call.write(this.#status);
    };
  }

  #unary(name: string, answer: (request: unknown) => unknown): handleUnaryCall<unknown, unknown> {
    return async (call, callback) => {
      this.requests.push([name, call.request]);
      try {
        callback(null, await answer(call.request));
      } catch (thrown) {
        callback(serviceError(thrown));
      }
    };
  }

  #streaming(name: string, answer: (request: unknown) => unknown): handleServerStreamingCall<unknown, unknown> {
    return async (call) => {
      this.requests.push([name, call.request]);
      try {
        for await (const message of answer(call.request) as AsyncIterable<unknown>) call.write(message);
        call.end();
      } catch (thrown) {
        call.emit('error', serviceError(thrown));
      }
    };
  }
}

/** What an agent says of a node. */
export function nodeStatus(node: string, fields: Partial<NodeStatus> = {}): NodeStatus {
  return NodeStatus.fromPartial({ node, ready: true, ...fields } as never);
}

const statusNumbers: Record<string, number> = { NotFound: 5, Unavailable: 14, InUse: 9, InvalidArgument: 3 };

/** As agents send their errors. */
function serviceError(thrown: unknown) {
  const error = HearthError.from(thrown);
  const metadata = new Metadata();
  metadata.set('hearth-code', error.code);
  return { code: statusNumbers[error.code] ?? 2, details: error.message, metadata };
}
