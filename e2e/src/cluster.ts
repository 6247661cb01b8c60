import { randomBytes } from 'node:crypto';
import {
  chmodSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readFileSync,
  readlinkSync,
  rmSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { AgentProcess, type AgentSettings } from './agent_process.ts';
import { type Outcome, root, run, start, until } from './command.ts';
import { DaemonProcess } from './daemon_process.ts';

/**
 * Real agents on loopback with a holder and a store of their own, all below one temporary folder. `close`
 * ends every process, mount and folder, whatever state a test has left them in.
 */
export class Cluster {
  readonly folder: string;
  readonly agents = new Map<string, AgentProcess>();
  readonly #holders: DaemonProcess[] = [];

  private constructor() {
    this.folder = mkdtempSync(join(tmpdir(), 'hearth-e2e-'));
    this.makeSecret('secret');
    mkdirSync(join(this.folder, 'mnt'));
  }

  static async start(names: string[], settings: AgentSettings & { holder?: boolean } = {}): Promise<Cluster> {
    const cluster = new Cluster();
    try {
      if (settings.holder === true) await cluster.startHolder([], settings.release);
      await Promise.all(names.map((name) => cluster.add(name, settings)));
    } catch (error) {
      await cluster.close();
      throw error;
    }
    return cluster;
  }

  /** Starts an agent and waits until it serves. */
  async add(name: string, settings: AgentSettings = {}): Promise<AgentProcess> {
    const agent = this.prepare(name, settings);
    await agent.start();
    return agent;
  }

  /** An agent that is not started yet. */
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
    return start(join(root, 'cli/bin/hearth'), ['--socket', this.agent(agent).socket, ...args]);
  }

  /** Runs `hearth`, which must end well, and gives its last line of JSON. */
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

  /** An empty folder to mount at. */
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

  /** `release`: the checkout that it is of; this one if it is not given. */
  async startHolder(flags: string[] = [], release = root): Promise<void> {
    const socket = join(this.folder, 'holder.sock');
    const program = join(release, 'build/release/holder/hearth-holder');
    const holder = new DaemonProcess(program, ['--socket', socket, ...flags]);
    this.#holders.push(holder);
    await until('the holder listens', () => existsSync(socket) || holder.ended);
  }

  /** Checkout that the running holder is of, as the kernel says; without symbolic links. */
  get holderRelease(): string {
    return readlinkSync(`/proc/${this.#holders.at(-1)?.child.pid}/exe`).replace(/\/build\/release\/holder\/[^/]+$/, '');
  }

  async endHolder(signal: NodeJS.Signals = 'SIGTERM'): Promise<Outcome | undefined> {
    return await this.#holders.at(-1)?.end(signal);
  }

  /** A second holder, which takes the place of the first one; how that ended. */
  async replaceHolder(): Promise<Outcome | undefined> {
    const before = this.#holders.at(-1);
    before?.expectEnd();
    await this.startHolder(['--take-over']);
    return await before?.outcome;
  }

  /** Agents and holders that ended though they were not to, with what they said at last. */
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
    // The holder detaches its mounts; agents that wait for one another's answers need not end in order here.
    await Promise.all([...this.agents.values()].map((agent) => agent.kill()));
    await this.endHolder();
    for (const target of mountsBelow(this.folder)) await run('umount', ['--lazy', '--no-canonicalize', target]);
    rmSync(this.folder, { recursive: true, force: true });
  }
}

/** Mount points below a folder, the deepest last mounted first, from the kernel's table alone. */
export function mountsBelow(folder: string): string[] {
  const targets = readFileSync('/proc/self/mountinfo', 'utf8')
    .split('\n')
    .map((line) => line.split(' ')[4] ?? '');
  return targets.filter((target) => target.startsWith(`${folder}/`)).reverse();
}
