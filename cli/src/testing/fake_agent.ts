import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import {
  type handleServerStreamingCall,
  type handleUnaryCall,
  Metadata,
  Server,
  ServerCredentials,
  type UntypedHandleCall,
} from '@grpc/grpc-js';
import { errorTable, HearthError } from '@hearth/common';
import { type ControlServer, ControlService } from '@hearth/common/generated/hearth/v1/control.ts';

type AnyRequest = Record<string, unknown>;
type StreamName = {
  [Name in keyof typeof ControlService]: (typeof ControlService)[Name]['responseStream'] extends true ? Name : never;
}[keyof typeof ControlService];
type UnaryName = Exclude<keyof typeof ControlService, StreamName>;
type RequestOf<Name extends keyof typeof ControlService> = ReturnType<
  (typeof ControlService)[Name]['requestDeserialize']
>;
type ResponseOf<Name extends keyof typeof ControlService> = Parameters<
  (typeof ControlService)[Name]['responseSerialize']
>[0];

/** Answers of the fake; calls without one fail with UNIMPLEMENTED, as on an older agent. */
export type Script = {
  [Name in UnaryName]?: (request: RequestOf<Name>) => ResponseOf<Name> | Promise<ResponseOf<Name>>;
} & {
  [Name in StreamName]?: (request: RequestOf<Name>) => AsyncIterable<ResponseOf<Name>> | Iterable<ResponseOf<Name>>;
};

const statusNumbers: Record<string, number> = {
  CANCELLED: 1,
  INVALID_ARGUMENT: 3,
  DEADLINE_EXCEEDED: 4,
  NOT_FOUND: 5,
  ALREADY_EXISTS: 6,
  PERMISSION_DENIED: 7,
  RESOURCE_EXHAUSTED: 8,
  FAILED_PRECONDITION: 9,
  ABORTED: 10,
  UNIMPLEMENTED: 12,
  INTERNAL: 13,
  UNAVAILABLE: 14,
  DATA_LOSS: 15,
  UNAUTHENTICATED: 16,
};

/** A control API on a Unix socket of its own, scripted by a test. */
export class FakeAgent {
  readonly socket: string;
  /** Every request as `[method, request]`. */
  readonly requests: [string, AnyRequest][] = [];
  /** Methods whose streams the client cancelled. */
  readonly cancelled: string[] = [];
  killed = false;
  readonly #server: Server;
  readonly #directory: string;

  private constructor(server: Server, directory: string) {
    this.#server = server;
    this.#directory = directory;
    this.socket = join(directory, 'agent.sock');
  }

  /** In a directory of its own, or in that of an agent that has ended, as a restarted one. */
  static async start(script: Script, former?: FakeAgent): Promise<FakeAgent> {
    const directory = former === undefined ? await mkdtemp(join(tmpdir(), 'hearth-cli-')) : former.#directory;
    const agent = new FakeAgent(new Server(), directory);
    agent.#server.addService(ControlService, agent.#handlers(script));
    await new Promise<void>((resolve, reject) => {
      agent.#server.bindAsync(`unix:${agent.socket}`, ServerCredentials.createInsecure(), (error) =>
        error === null ? resolve() : reject(error),
      );
    });
    return agent;
  }

  /** As if it were killed: connections break and nothing listens. */
  async kill(): Promise<void> {
    this.killed = true;
    this.#server.forceShutdown();
    await rm(this.socket, { force: true });
  }

  async stop(): Promise<void> {
    this.#server.forceShutdown();
    await rm(this.#directory, { recursive: true });
  }

  #handlers(script: Script): ControlServer {
    const handlers: Record<string, UntypedHandleCall> = {};
    for (const [name, answer] of Object.entries(script)) {
      const { responseStream } = ControlService[name as keyof typeof ControlService];
      handlers[name] = responseStream
        ? this.#streaming(name, answer as unknown as (request: AnyRequest) => AsyncIterable<unknown>)
        : this.#unary(name, answer as unknown as (request: AnyRequest) => unknown);
    }
    return handlers as unknown as ControlServer;
  }

  #unary(name: string, answer: (request: AnyRequest) => unknown): handleUnaryCall<AnyRequest, unknown> {
    return async (call, callback) => {
      this.requests.push([name, call.request]);
      try {
        callback(null, await answer(call.request));
      } catch (thrown) {
        callback(serviceError(thrown));
      }
    };
  }

  #streaming(
    name: string,
    answer: (request: AnyRequest) => AsyncIterable<unknown>,
  ): handleServerStreamingCall<AnyRequest, unknown> {
    return async (call) => {
      this.requests.push([name, call.request]);
      call.once('cancelled', () => this.cancelled.push(name));
      try {
        for await (const message of answer(call.request)) {
          if (call.cancelled) return;
          call.write(message);
        }
        call.end();
      } catch (thrown) {
        call.emit('error', serviceError(thrown));
      }
    };
  }
}

/** As the agent's control server sends its errors. */
function serviceError(thrown: unknown) {
  const error = HearthError.from(thrown);
  const metadata = new Metadata();
  metadata.set('hearth-code', error.code);
  return { code: statusNumbers[errorTable[error.code].grpc] ?? 2, details: error.message, metadata };
}
