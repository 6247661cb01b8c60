import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { root } from '../checkout.ts';
import { type Outcome, run } from '../command.ts';
import { DaemonProcess } from '../daemon_process.ts';
import { freePort } from '../free_port.ts';

export interface AgentSettings {
  /** Value of `--cache-directories`; default: one folder of the agent with a budget of 2 GiB. */
  cacheDirectories?: string;
  clusterName?: string;
  secretFile?: string;
  wirePort?: number;
  /** Further flags of `hearth agent`. */
  flags?: string[];
  environment?: Record<string, string>;
  /** Built checkout of the release to run; default: this checkout. */
  release?: string;
  /** A program with arguments that launches the agent's command line. */
  launcher?: readonly string[];
  /** Address for other agents; default loopback. Only the launcher's environment may be able to reach it. */
  address?: string;
  /** Writes the agent's output to FOLDER/NAME.log instead of memory. */
  log?: boolean;
}

/** On the machine's tmpfs, as /run is on nodes: the folder of volumes' tails for the agents below a folder. */
export const tailsFolder = (folder: string) => join('/dev/shm', folder.replaceAll('/', '-').slice(1));

/** One `hearth agent`, which keeps its ports, folders and name across restarts. */
export class AgentProcess {
  readonly name: string;
  readonly socket: string;
  readonly settings: AgentSettings;
  /** Checkout of the next start. */
  release: string;
  readonly #folder: string;
  /** All processes so far, the current one last. */
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

  /** Outcomes of processes that ended without being asked to. */
  get endedByThemselves(): Outcome[] {
    return this.#processes.flatMap(({ endedByItself }) => (endedByItself === undefined ? [] : [endedByItself]));
  }

  get running(): boolean {
    return this.#process !== undefined && this.#process.ended === undefined;
  }

  get pid(): number {
    if (this.#process === undefined) throw new Error(`agent ${this.name} does not run`);
    return this.#process.pid;
  }

  /** Checkout of the running process, from the kernel, with symbolic links resolved. */
  get runningRelease(): string {
    const words = readFileSync(`/proc/${this.pid}/cmdline`, 'utf8').split('\0');
    const main = '/cli/src/main.ts';
    const program = words.find((word) => word.endsWith(main));
    if (program === undefined)
      throw new Error(`agent ${this.name} is not the program of a checkout: ${words.join(' ')}`);
    return program.slice(0, -main.length);
  }

  /** Resident bytes without shared memory; the arena is shared and has its full size from the start. */
  residentMemory(): number {
    const status = readFileSync(`/proc/${this.pid}/status`, 'utf8');
    const kilobytes = (name: string): number => Number(new RegExp(`^${name}:\\s+(\\d+) kB$`, 'm').exec(status)?.[1]);
    return (kilobytes('VmRSS') - kilobytes('RssShmem')) * 1024;
  }

  /** Starts the process and waits until it reports ready. Fails with the process's output if the process ends. */
  async start(): Promise<void> {
    const running = await this.launch();
    await running.until(`agent ${this.name} is ready`, () => this.#isReady());
  }

  async #isReady(): Promise<boolean> {
    if (this.settings.address !== undefined) {
      return (await run(join(this.release, 'cli/bin/hearth'), ['--socket', this.socket, 'status'])).code === 0;
    }
    return await fetch(`http://127.0.0.1:${this.healthPort}/readyz`, { signal: AbortSignal.timeout(2000) }).then(
      (answer) => answer.ok,
      () => false,
    );
  }

  /** Starts the process; the caller watches for its end. */
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
        ...['--wire-listen', `${settings.address ?? '127.0.0.1'}:${this.wirePort}`],
        ...['--cache-directories', settings.cacheDirectories ?? `${this.cacheFolder}=2GiB:1GiB`],
        ...['--control-socket', this.socket],
        ...['--health-listen', `127.0.0.1:${this.healthPort}`],
        ...['--holder-socket', path('holder.sock')],
        // Earlier releases do not know the flag.
        ...(this.release === root ? ['--volumes-tails', tailsFolder(this.#folder)] : []),
        ...['--origins-allow-private', 'yes', '--log-format', 'json'],
        ...(settings.flags ?? []),
      ],
      {
        ...(settings.environment === undefined ? {} : { environment: settings.environment }),
        ...(settings.log === true ? { log: path(`${this.name}.log`) } : {}),
      },
    );
    this.#processes.push(launched);
    return launched;
  }

  /** Kills the process, as a power failure does. */
  async kill(): Promise<void> {
    await this.#process?.end();
  }

  /** Stops the process with SIGTERM. */
  async stop(): Promise<Outcome> {
    if (this.#process === undefined) throw new Error(`agent ${this.name} does not run`);
    return await this.#process.end('SIGTERM');
  }
}
