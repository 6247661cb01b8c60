import { spawn } from 'node:child_process';
import { closeSync, existsSync, mkdirSync, openSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { type Outcome, start, until } from '@hearth/common/testing';
import { childrenOf, identify, isAlive, killProcess, type ProcessIdentity } from '../process_identity.ts';

interface Record {
  /** unshare(1), in the host's namespaces; when it ends the kernel ends `init`. */
  keeper: ProcessIdentity;
  /** First process of the machine; with it ends everything in the machine. */
  init: ProcessIdentity;
}

/**
 * Stands for a machine: processes with mounts, a network and process ids of their own, and their own /run,
 * /var/lib and /var/log, and a disk at /var/cache; all else is the host's. Ending it ends all its processes, mounts and
 * network devices in one step, since nothing but its first process keeps its namespaces. Only its folder stays, for
 * whoever made it to remove.
 */
export class Machine {
  readonly name: string;
  readonly folder: string;
  #record: Record;

  private constructor(folder: string, record: Record) {
    this.name = folder.split('/').at(-1) ?? folder;
    this.folder = folder;
    this.#record = record;
  }

  /** Starts a machine in a folder, which is made. */
  static async start(folder: string): Promise<Machine> {
    return new Machine(folder, await boot(folder));
  }

  /** The machine that was started in a folder, whether it runs or not; undefined if none was. */
  static open(folder: string): Machine | undefined {
    const path = join(folder, 'machine.json');
    return existsSync(path) ? new Machine(folder, JSON.parse(readFileSync(path, 'utf8'))) : undefined;
  }

  get isRunning(): boolean {
    return isAlive(this.#record.init);
  }

  /** Process id of the first process, as the host sees it; names the namespaces for nsenter(1) and ip(8). */
  get pid(): number {
    return this.#record.init.pid;
  }

  /** How the host sees a path of the machine, while it runs. */
  path(inside: string): string {
    return join(`/proc/${this.pid}/root`, inside);
  }

  /** Runs a program in the machine as root; paths are those of the machine. */
  run(program: string, args: string[], options: { timeoutMs?: number; input?: string } = {}): Promise<Outcome> {
    return start('nsenter', [...this.#enter(), program, ...args], options).outcome;
  }

  /** As `run`, but anything else than success is an error with what the program wrote. Returns its output. */
  async must(program: string, ...args: string[]): Promise<string> {
    const outcome = await this.run(program, args);
    if (outcome.code !== 0) {
      throw new Error(`${program} ${args.join(' ')} in ${this.name}: ${outcome.stderr || `exit ${outcome.code}`}`);
    }
    return outcome.stdout;
  }

  /** Starts a program that goes on running after this process; what it writes is added to `logPath`. */
  async startService(name: string, program: string, args: string[], options: { logPath: string; path?: string }) {
    if (await this.#servicePid(name)) return;
    const script = 'setsid "$@" >>"$LOG" 2>&1 </dev/null & echo $! >"$RECORD.new"; mv "$RECORD.new" "$RECORD"';
    const environment = [
      `LOG=${options.logPath}`,
      `RECORD=${this.#serviceRecord(name)}`,
      `PATH=${options.path ? `${options.path}:` : ''}${process.env.PATH}`,
    ];
    await this.must('env', ...environment, 'sh', '-c', script, name, program, ...args);
  }

  /** True while the service runs. */
  async hasService(name: string): Promise<boolean> {
    return (await this.#servicePid(name)) !== undefined;
  }

  /** Ends a service by a signal and waits until it is gone; what it has started stays, as on a real machine. */
  async stopService(name: string, signal: 'TERM' | 'KILL' = 'TERM', limitMs = 300_000): Promise<void> {
    const pid = await this.#servicePid(name);
    if (pid === undefined) return;
    await this.run('kill', [`-${signal}`, String(pid)]);
    const end = performance.now() + limitMs;
    while (await this.#servicePid(name)) {
      if (performance.now() > end) {
        throw new Error(`${name} in ${this.name} does not end within ${limitMs / 1000} s of SIG${signal}`);
      }
      await sleep(50);
    }
  }

  /** Stops (SIGSTOP) or continues a service: it is there and does not answer. */
  async freezeService(name: string, frozen: boolean): Promise<void> {
    const pid = await this.#servicePid(name);
    if (pid === undefined) throw new Error(`${name} does not run in ${this.name}`);
    await this.must('kill', frozen ? '-STOP' : '-CONT', String(pid));
  }

  /** Ends everything in the machine at once, as a power cut does. */
  async stop(): Promise<void> {
    await killProcess(this.#record.init);
    await killProcess(this.#record.keeper);
  }

  /** Starts a machine again that has been stopped. Its disks are as they were; it has no network yet. */
  async restart(): Promise<void> {
    if (this.isRunning) throw new Error(`the machine ${this.name} runs already`);
    this.#record = await boot(this.folder);
  }

  #enter(): string[] {
    return [`--target=${this.pid}`, '--mount', '--net', '--pid', '--'];
  }

  #serviceRecord(name: string): string {
    return join(this.folder, 'services', name);
  }

  async #servicePid(name: string): Promise<number | undefined> {
    const record = this.#serviceRecord(name);
    if (!existsSync(record)) return undefined;
    const pid = Number(readFileSync(record, 'utf8'));
    return (await this.run('kill', ['-0', String(pid)])).code === 0 ? pid : undefined;
  }
}

/** Starts the first process of a machine, which makes the rest of it. */
async function boot(folder: string): Promise<Record> {
  rmSync(join(folder, 'ready'), { force: true });
  rmSync(join(folder, 'services'), { recursive: true, force: true });
  mkdirSync(join(folder, 'services'), { recursive: true });
  const log = openSync(join(folder, 'init.log'), 'a');
  const keeper = spawn(
    'unshare',
    [
      ...['--mount', '--net', '--pid', '--fork', '--kill-child=KILL', '--mount-proc', '--propagation', 'private'],
      ...[join(import.meta.dirname, 'init.sh'), folder],
    ],
    { detached: true, stdio: ['ignore', log, log] },
  );
  closeSync(log);
  await new Promise((resolve, reject) => keeper.once('spawn', resolve).once('error', reject));
  keeper.unref();
  const pid = keeper.pid as number;
  // Written before the machine is used, so that whoever cleans up after us knows what to end.
  const keeperIdentity = identify(pid);
  if (!keeperIdentity) throw new Error(failed(folder));
  writeRecord(folder, { keeper: keeperIdentity, init: keeperIdentity });
  const init = await until(`first process of ${folder}`, () => {
    if (identify(pid) === undefined) throw new Error(failed(folder));
    const child = childrenOf(pid)[0];
    return child === undefined ? undefined : identify(child);
  });
  const record = { keeper: keeperIdentity, init };
  writeRecord(folder, record);
  await until(`machine ${folder}`, () => {
    if (!isAlive(init)) throw new Error(failed(folder));
    return existsSync(join(folder, 'ready'));
  });
  return record;
}

function writeRecord(folder: string, record: Record): void {
  writeFileSync(join(folder, 'machine.json'), JSON.stringify(record));
}

function failed(folder: string): string {
  return `the machine ${folder} ended while starting: ${readFileSync(join(folder, 'init.log'), 'utf8')}`;
}
