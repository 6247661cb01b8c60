import { type ChildProcess, fork } from 'node:child_process';
import { openSync } from 'node:fs';
import { join } from 'node:path';
import { root } from '@hearth/common/testing';

export interface AgentHostOptions {
  folder: string;
  /** Address of the store. */
  store: string;
  cluster: string;
  /** A folder with `tls.crt`, `tls.key` and `ca.crt`. */
  certificates: string;
  /** Interval at which each agent reads its engine's figures. */
  statisticsMs: number;
  /** Of the Datasets, that each node holds. */
  share: number;
}

type Call = { kind: 'start'; node: string; address: string; zone: string } | { kind: 'stop'; node: string };
export type ToAgentHost = { id: number; call: Call };
export type FromAgentHost = { id: number; error?: string };

/** A child process that runs agents. Ends with this process. */
export class AgentHost {
  readonly #child: ChildProcess;
  readonly #waiting = new Map<number, (answer: FromAgentHost) => void>();
  #calls = 0;

  constructor(options: AgentHostOptions, name: string) {
    const log = openSync(join(options.folder, `${name}.log`), 'a');
    this.#child = fork(join(import.meta.dirname, 'agent_host_main.ts'), [JSON.stringify(options)], {
      stdio: ['ignore', log, log, 'ipc'],
      execArgv: ['--max-old-space-size=8192'],
      env: { ...process.env, NODE_COMPILE_CACHE: join(root, 'build/compile-cache') },
    });
    this.#child.on('message', (answer: FromAgentHost) => {
      this.#waiting.get(answer.id)?.(answer);
      this.#waiting.delete(answer.id);
    });
    this.#child.once('exit', () => {
      for (const [id, answer] of this.#waiting) answer({ id, error: `the process of agents ${name} has ended` });
    });
  }

  get pid(): number {
    return this.#child.pid ?? 0;
  }

  /** Resolves when the agent serves. */
  start(node: string, address: string, zone: string): Promise<void> {
    return this.#call({ kind: 'start', node, address, zone });
  }

  /** Ends an agent in order. */
  stop(node: string): Promise<void> {
    return this.#call({ kind: 'stop', node });
  }

  end(): void {
    this.#child.kill('SIGKILL');
  }

  async #call(call: Call): Promise<void> {
    const id = this.#calls++;
    const { promise, resolve } = Promise.withResolvers<FromAgentHost>();
    this.#waiting.set(id, resolve);
    this.#child.send({ id, call } satisfies ToAgentHost);
    const { error } = await promise;
    if (error !== undefined) throw new Error(`${call.kind} agent ${call.node}: ${error}`);
  }
}
