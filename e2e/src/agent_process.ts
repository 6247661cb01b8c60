import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { freePort } from '@hearth/common/testing';
import { type Outcome, root, until } from './command.ts';
import { DaemonProcess } from './daemon_process.ts';

export interface AgentSettings {
  /** As `--cache-directories` takes it; default: a folder of the agent with a budget of 2 GiB. */
  cacheDirectories?: string;
  clusterName?: string;
  secretFile?: string;
  wirePort?: number;
  /** More flags of `hearth agent`. */
  flags?: string[];
  environment?: Record<string, string>;
  /** Checkout of the release that it is of, built; default: this one. */
  release?: string;
  /** A program with arguments that runs the agent, whose words follow. */
  launcher?: readonly string[];
}

/** One `hearth agent`, which keeps its ports, folders and name when it is started again. */
export class AgentProcess {
  readonly name: string;
  readonly socket: string;
  readonly settings: AgentSettings;
  /** Of the next start. */
  release: string;
  readonly #folder: string;
  /** All that it has been, the present one last. */
  readonly #processes: DaemonProcess[] = [];
  wirePort: number | undefined;
  healthPort: number | undefined;

  constructor(name: string, folder: string, settings: AgentSettings) {
    this.name = name;
    this.#folder = folder;
    this.settings = settings;
    this.socket = join(folder, `${name}.sock`);
    this.wirePort = settings.wirePort;
    this.release = settings.release ?? root;
  }

  get cacheFolder(): string {
    return join(this.#folder, `cache-${this.name}`);
  }

  get #process(): DaemonProcess | undefined {
    return this.#processes.at(-1);
  }

  /** How processes of it ended that were not to. */
  get endedByThemselves(): Outcome[] {
    return this.#processes.flatMap(({ endedByItself }) => (endedByItself === undefined ? [] : [endedByItself]));
  }

  get running(): boolean {
    return this.#process !== undefined && this.#process.ended === undefined;
  }

  get pid(): number {
    const pid = this.#process?.child.pid;
    if (pid === undefined) throw new Error(`agent ${this.name} does not run`);
    return pid;
  }

  /** Checkout that the running process is of, as the kernel says; without symbolic links. */
  get runningRelease(): string {
    const words = readFileSync(`/proc/${this.pid}/cmdline`, 'utf8').split('\0');
    const main = '/cli/src/main.ts';
    const program = words.find((word) => word.endsWith(main));
    if (program === undefined)
      throw new Error(`agent ${this.name} is not the program of a checkout: ${words.join(' ')}`);
    return program.slice(0, -main.length);
  }

  /** Bytes of memory that the process has resident. */
  residentMemory(): number {
    return Number(/^VmRSS:\s+(\d+) kB$/m.exec(readFileSync(`/proc/${this.pid}/status`, 'utf8'))?.[1]) * 1024;
  }

  /** Starts the process and waits until it says that it is ready. Fails with its output when it ends instead. */
  async start(): Promise<void> {
    const running = await this.launch();
    const address = `http://127.0.0.1:${this.healthPort}/readyz`;
    const ready = async () => {
      if (running.ended !== undefined) {
        throw new Error(`agent ${this.name} ended with ${running.ended.code}: ${running.ended.stderr}`);
      }
      return await fetch(address, { signal: AbortSignal.timeout(2000) }).then(
        (answer) => answer.ok,
        () => false,
      );
    };
    await until(`agent ${this.name} is ready`, ready);
  }

  /** Starts the process; its end is for the caller to see. */
  async launch(): Promise<DaemonProcess> {
    this.wirePort ??= await freePort();
    this.healthPort ??= await freePort();
    const { settings } = this;
    const path = (name: string) => join(this.#folder, name);
    const [program = '', ...words] = [...(settings.launcher ?? []), join(this.release, 'cli/bin/hearth')];
    const launched = new DaemonProcess(
      program,
      [
        ...words,
        'agent',
        ...['--node', this.name],
        ...['--cluster', settings.clusterName ?? 'e2e'],
        ...['--store', `sqlite:${path('store.sqlite')}`],
        ...['--secret-file', settings.secretFile ?? path('secret')],
        ...['--wire-listen', `127.0.0.1:${this.wirePort}`],
        ...['--cache-directories', settings.cacheDirectories ?? `${this.cacheFolder}=2GiB:1GiB`],
        ...['--control-socket', this.socket],
        ...['--health-listen', `127.0.0.1:${this.healthPort}`],
        ...['--holder-socket', path('holder.sock')],
        ...['--origins-allow-private', 'yes', '--log-format', 'json'],
        ...(settings.flags ?? []),
      ],
      settings.environment,
    );
    this.#processes.push(launched);
    return launched;
  }

  /** As power does: at once. */
  async kill(): Promise<void> {
    await this.#process?.end('SIGKILL');
  }

  /** In order, by SIGTERM. */
  async stop(): Promise<Outcome> {
    if (this.#process === undefined) throw new Error(`agent ${this.name} does not run`);
    return await this.#process.end('SIGTERM');
  }
}
