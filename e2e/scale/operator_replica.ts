import { type ChildProcess, fork } from 'node:child_process';
import { once } from 'node:events';
import { openSync } from 'node:fs';
import { join } from 'node:path';
import { root, until } from '@hearth/common/testing';

/** As operator/bin/hearth-operator. */
const flags = ['--max-semi-space-size=4', '--optimize-for-size', '--disable-warning=ExperimentalWarning'];

/** Since the sample before. */
export interface ReplicaSample {
  longest: { controller: string; key: string; seconds: number };
  longestPauseSeconds: number;
}

export type FromReplica =
  | { kind: 'ready'; port: number; webhookPort: number }
  | { kind: 'sample'; sample: ReplicaSample };

/** A replica of the operator in a process of its own, which ends with this one. */
export class OperatorReplica {
  readonly #child: ChildProcess;
  readonly #ready = Promise.withResolvers<{ port: number; webhookPort: number }>();
  #samples: ((sample: ReplicaSample) => void)[] = [];

  constructor(instance: string, kubeconfig: string, folder: string) {
    const log = openSync(join(folder, `${instance}.log`), 'a');
    this.#child = fork(join(import.meta.dirname, 'operator_replica_main.ts'), [instance], {
      stdio: ['ignore', log, log, 'ipc'],
      execArgv: flags,
      env: {
        ...process.env,
        KUBECONFIG: kubeconfig,
        MALLOC_ARENA_MAX: '2',
        NODE_COMPILE_CACHE: join(root, 'build/compile-cache'),
      },
    });
    this.#child.on('message', (message: FromReplica) => {
      if (message.kind === 'ready') this.#ready.resolve(message);
      else this.#samples.shift()?.(message.sample);
    });
    this.#child.once('exit', () => this.#ready.reject(new Error(`the operator ${instance} has ended`)));
    this.#ready.promise.catch(() => undefined);
  }

  get pid(): number {
    return this.#child.pid ?? 0;
  }

  /** Resolves when its copies of all objects are complete. */
  async webhookPort(): Promise<number> {
    return (await this.#ready.promise).webhookPort;
  }

  /** The value of a metric without labels; undefined while nothing answers. */
  async metric(name: string): Promise<number | undefined> {
    const { port } = await this.#ready.promise;
    const answer = await fetch(`http://127.0.0.1:${port}/metrics`).catch(() => undefined);
    const line = (await answer?.text())?.split('\n').find((one) => one.startsWith(`${name} `));
    return line === undefined ? undefined : Number(line.split(' ')[1]);
  }

  async leads(): Promise<void> {
    await until('it leads', async () => (await this.metric('hearth_operator_leader')) === 1);
  }

  sample(): Promise<ReplicaSample> {
    const { promise, resolve } = Promise.withResolvers<ReplicaSample>();
    this.#samples.push(resolve);
    this.#child.send('sample');
    return promise;
  }

  async kill(): Promise<void> {
    if (this.#child.exitCode !== null || this.#child.signalCode !== null) return;
    const ended = once(this.#child, 'exit');
    this.#child.kill('SIGKILL');
    await ended;
  }
}
