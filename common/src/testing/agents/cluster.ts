import { randomBytes } from 'node:crypto';
import { chmodSync, mkdirSync, mkdtempSync, readFileSync, readlinkSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { root } from '../checkout.ts';
import { type Outcome, start } from '../command.ts';
import { DaemonProcess } from '../daemon_process.ts';
import { detachBelow, mountPointsBelow } from '../mounts.ts';
import { until } from '../until.ts';
import { AgentProcess, type AgentSettings, tailsFolder } from './agent_process.ts';

export interface ClusterSettings extends AgentSettings {
  /** Starts a mount holder. */
  holder?: boolean;
  /** Folder of everything in the cluster, deleted with it; default: a temporary folder. */
  folder?: string;
  /** Checkout whose command line `hearth` runs; default: this checkout. */
  commandLine?: string;
  /** Settings of single agents. */
  settingsOf?: (name: string) => AgentSettings;
}

/**
 * Real agents with their own holder and store, on loopback or each at its own address, all below one folder. `close`
 * ends every process, mount and folder in whatever state a test left them; the kernel ends the processes when this
 * process ends.
 */
export class Cluster {
  readonly folder: string;
  readonly agents = new Map<string, AgentProcess>();
  readonly #holders: DaemonProcess[] = [];
  readonly #commandLine: string;

  private constructor(folder: string, commandLine: string) {
    this.folder = folder;
    this.#commandLine = commandLine;
    mkdirSync(join(folder, 'mnt'), { recursive: true });
    this.makeSecret('secret');
  }

  static async start(names: readonly string[], settings: ClusterSettings = {}): Promise<Cluster> {
    const {
      folder = mkdtempSync(join(tmpdir(), 'hearth-e2e-')),
      release = root,
      commandLine = root,
      holder,
      settingsOf,
      ...agent
    } = settings;
    const cluster = new Cluster(folder, commandLine);
    try {
      if (holder === true) await cluster.startHolder([], release);
      await Promise.all(names.map((name) => cluster.add(name, { ...agent, release, ...settingsOf?.(name) })));
    } catch (error) {
      await cluster.close();
      throw error;
    }
    return cluster;
  }

  /** Starts an agent and waits until it is ready. */
  async add(name: string, settings: AgentSettings = {}): Promise<AgentProcess> {
    const agent = this.prepare(name, settings);
    await agent.start();
    return agent;
  }

  /** Creates an agent without starting it. */
  prepare(name: string, settings: AgentSettings = {}): AgentProcess {
    const former = this.agents.get(name);
    if (former?.running === true) throw new Error(`agent ${name} runs already`);
    const agent = new AgentProcess(name, this.folder, settings);
    this.agents.set(name, agent);
    return agent;
  }

  agent(name: string): AgentProcess {
    const agent = this.agents.get(name);
    if (agent === undefined) throw new Error(`no agent ${name}`);
    return agent;
  }

  /** Runs `hearth` against an agent. */
  hearth(agent: string, ...args: string[]): Promise<Outcome> {
    return this.begin(agent, ...args).outcome;
  }

  begin(agent: string, ...args: string[]): ReturnType<typeof start> {
    return start(join(this.#commandLine, 'cli/bin/hearth'), ['--socket', this.agent(agent).socket, ...args]);
  }

  /** Runs `hearth`, which must succeed, and parses its last line as JSON. */
  async json<T = Record<string, unknown>>(agent: string, ...args: string[]): Promise<T> {
    return (await this.jsonLines<T>(agent, ...args)).at(-1) as T;
  }

  async jsonLines<T = Record<string, unknown>>(agent: string, ...args: string[]): Promise<T[]> {
    const { code, stdout, stderr } = await this.hearth(agent, '--json', ...args);
    if (code !== 0) throw new Error(`hearth ${args.join(' ')} ended with ${code}: ${stderr}`);
    return stdout
      .trim()
      .split('\n')
      .map((line) => JSON.parse(line) as T);
  }

  /** Creates an empty folder to mount on. */
  mountPoint(name: string): string {
    const path = join(this.folder, 'mnt', name);
    mkdirSync(path, { recursive: true });
    return path;
  }

  makeSecret(name: string): string {
    const path = join(this.folder, name);
    writeFileSync(path, randomBytes(24).toString('hex'));
    chmodSync(path, 0o600);
    return path;
  }

  /** `release`: checkout of the holder; default: this checkout. */
  async startHolder(flags: string[] = [], release = root): Promise<void> {
    const socket = join(this.folder, 'holder.sock');
    const program = join(release, 'build/release/holder/hearth-holder');
    const holder = new DaemonProcess(program, ['--socket', socket, ...flags]);
    this.#holders.push(holder);
    await holder.until('the holder listens', () => listensAt(socket));
  }

  /** Checkout of the running holder, from the kernel, with symbolic links resolved. */
  get holderRelease(): string {
    return readlinkSync(`/proc/${this.#holders.at(-1)?.pid}/exe`).replace(/\/build\/release\/holder\/[^/]+$/, '');
  }

  async endHolder(signal: NodeJS.Signals = 'SIGTERM'): Promise<Outcome | undefined> {
    return await this.#holders.at(-1)?.end(signal);
  }

  /** Starts a second holder, which takes over from the first; returns the first one's outcome. */
  async replaceHolder(): Promise<Outcome | undefined> {
    const before = this.#holders.at(-1);
    before?.expectEnd();
    await this.startHolder(['--take-over']);
    return await before?.outcome;
  }

  /** Waits until every agent sees all agents ready. */
  async allReady(): Promise<void> {
    const names = [...this.agents.keys()];
    await Promise.all(
      names.map((asked) =>
        until(`agent ${asked} sees all ready`, async () => {
          const { nodes } = await this.json<Status>(asked, 'status');
          return names.every((name) => nodes.some(({ node, ready }) => node === name && ready));
        }),
      ),
    );
  }

  /** Runs `work` while the holder is stopped by SIGSTOP, as on a machine without CPU time. */
  async withoutHolder<T>(work: () => Promise<T>): Promise<T> {
    const pid = this.#holders.at(-1)?.pid;
    if (pid === undefined) throw new Error('there is no holder');
    process.kill(pid, 'SIGSTOP');
    try {
      return await work();
    } finally {
      process.kill(pid, 'SIGCONT');
    }
  }

  /** Agents and holders that ended without being asked to, with their last output. */
  endedByThemselves(): string[] {
    const say = (name: string, { code, stderr }: Outcome) =>
      `${name} ended by itself with ${code}: ${stderr.trim().split('\n').slice(-2).join(' ').slice(-500)}`;
    return [
      ...[...this.agents.values()].flatMap(({ name, endedByThemselves }) =>
        endedByThemselves.map((outcome) => say(`agent ${name}`, outcome)),
      ),
      ...this.#holders.flatMap(({ endedByItself }) =>
        endedByItself === undefined ? [] : [say('the holder', endedByItself)],
      ),
    ];
  }

  async close(): Promise<void> {
    // The holder detaches its mounts, so agents that wait for each other need no orderly end here.
    await Promise.all([...this.agents.values()].map((agent) => agent.kill()));
    await this.endHolder();
    await detachBelow(this.folder);
    const [left] = mountPointsBelow(this.folder);
    if (left !== undefined) throw new Error(`${left} is mounted still: unmount it, and remove ${this.folder}`);
    for (const folder of [this.folder, tailsFolder(this.folder)]) rmSync(folder, { recursive: true, force: true });
  }
}

/** True when a program listens on a Unix socket; the socket's file exists a moment earlier. */
function listensAt(socket: string): boolean {
  // Columns: number, references, protocol, flags (__SO_ACCEPTCON), type, state, inode and path.
  const lines = readFileSync('/proc/net/unix', 'utf8').split('\n');
  return lines.some((line) => line.endsWith(` ${socket}`) && line.split(' ')[3] === '00010000');
}

interface Status {
  nodes: { node: string; ready: boolean }[];
}
