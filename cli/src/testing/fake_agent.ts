import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { Server, ServerCredentials } from '@grpc/grpc-js';
import type { CallName, RequestOf, ResponseOf, StreamName } from '@hearth/common';
import { ControlService } from '@hearth/common/generated/hearth/v1/control.ts';
import { scriptedControl } from '@hearth/common/grpc/testing';

type AnyRequest = Record<string, unknown>;

/** Answers of the fake; calls without one fail with UNIMPLEMENTED, as on an older agent. */
export type Script = {
  [Name in CallName]?: (request: RequestOf<Name>) => ResponseOf<Name> | Promise<ResponseOf<Name>>;
} & {
  [Name in StreamName]?: (request: RequestOf<Name>) => AsyncIterable<ResponseOf<Name>> | Iterable<ResponseOf<Name>>;
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
    const listener = {
      request: (name: string, request: unknown) => agent.requests.push([name, request as AnyRequest]),
      cancelled: (name: string) => agent.cancelled.push(name),
    };
    agent.#server.addService(ControlService, scriptedControl(script, listener));
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
}
