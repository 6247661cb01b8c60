import { randomBytes } from 'node:crypto';
import { existsSync, readFileSync, rmSync, statfsSync, writeFileSync } from 'node:fs';
import { join, resolve } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { HearthError } from '@hearth/common';
import { DaemonProcess, freePorts } from '@hearth/common/testing';
import { AgentClient } from '../cli/src/client/agent_client.ts';
import { root } from '../scripts/test/command.ts';
import { type AgentPaths, detach, endProcess, type RunDirectory } from './run_directory.ts';

/** Of agents that live: one that ends is reported at once. Longer only where the machine is very busy. */
const startMilliseconds = 120_000;
const unmountMilliseconds = 10_000;
/** Of the space that is free at the start: three agents share one file system with everything else. */
const budgetShare = 0.3;

/** Three agents and the mount holder as processes of this machine, each in a session of its own. */
export class Cluster {
  readonly #directory: RunDirectory;
  readonly #processes: DaemonProcess[] = [];
  readonly #signal: AbortSignal;
  readonly #health = new Map<string, string>();

  constructor(directory: RunDirectory, signal: AbortSignal) {
    this.#directory = directory;
    this.#signal = signal;
  }

  /** Resolves when every agent sees all of them ready. */
  async start(): Promise<void> {
    const { agents, holder, secret } = this.#directory;
    if (!existsSync(secret)) writeFileSync(secret, `${randomBytes(32).toString('hex')}\n`, { mode: 0o600 });
    this.#spawn(join(root, 'build/release/holder/hearth-holder'), ['--socket', holder.socket], holder);
    const ports = await freePorts(agents.length * 2);
    for (const [index, agent] of agents.entries()) {
      const wire = `127.0.0.1:${ports[2 * index]}`;
      const health = `127.0.0.1:${ports[2 * index + 1]}`;
      this.#health.set(agent.name, health);
      writeFileSync(agent.config, agentConfig(this.#directory, agent, wire, health));
      rmSync(agent.socket, { force: true });
      this.#spawn(join(root, 'cli/bin/hearth'), ['agent', '--config', agent.config], agent);
    }
    const deadline = Date.now() + startMilliseconds;
    for (const agent of agents) {
      while (!(await this.#seesAll(agent))) {
        this.#signal.throwIfAborted();
        this.#checkAlive();
        if (Date.now() > deadline) throw notReady(agent);
        await sleep(200);
      }
    }
  }

  /** `host:port` of an agent's metrics. */
  healthOf(agent: AgentPaths): string {
    return this.#health.get(agent.name) ?? '';
  }

  connect(agent: AgentPaths): Promise<AgentClient> {
    return AgentClient.connect({ socket: agent.socket, timeoutMilliseconds: 30_000, signal: this.#signal });
  }

  /** Unmounts, ends agents, then the holder. Caches stay. */
  async stop(): Promise<void> {
    for (const agent of this.#directory.agents) await unmountAll(agent);
    const [holder, ...agents] = this.#processes;
    const end = async (one: DaemonProcess | undefined) => {
      if (one !== undefined && one.ended === undefined) await endProcess(one.pid);
    };
    await Promise.all(agents.map(end));
    await end(holder);
    for (const target of this.#directory.mountPoints()) await detach(target);
    for (const { pid } of [...this.#directory.agents, this.#directory.holder]) rmSync(pid, { force: true });
  }

  /** Ctrl-C is for us to handle in order, so none of them shares our terminal. */
  #spawn(program: string, words: string[], files: { log: string; pid: string }): void {
    rmSync(files.log, { force: true });
    const started = new DaemonProcess(program, words, {
      environment: agentEnvironment(),
      detached: true,
      log: files.log,
    });
    const { pid } = started.child;
    if (pid !== undefined) writeFileSync(files.pid, `${pid}\n`);
    this.#processes.push(started);
  }

  #checkAlive(): void {
    const logs = [this.#directory.holder.log, ...this.#directory.agents.map((agent) => agent.log)];
    for (const [index, { ended }] of this.#processes.entries()) {
      if (ended === undefined) continue;
      const log = logs[index] ?? '';
      throw new HearthError(
        'Unavailable',
        `a process ended while it started (${ended.stderr || `exit code ${ended.code}`}); its log is ${log}:\n${tail(log)}`,
      );
    }
  }

  async #seesAll(agent: AgentPaths): Promise<boolean> {
    if (!existsSync(agent.socket)) return false;
    try {
      const client = await this.connect(agent);
      try {
        const { nodes } = await client.call('getStatus', {});
        const ready = new Set(nodes.filter((node) => node.ready).map((node) => node.node));
        return this.#directory.agents.every(({ name }) => ready.has(name));
      } finally {
        client.close();
      }
    } catch (error) {
      if (error instanceof HearthError && error.code === 'Unavailable') return false;
      throw error;
    }
  }
}

/** By the agent, which forgets its mounts then. One that does not answer leaves them to be detached. */
async function unmountAll({ name, socket }: AgentPaths): Promise<void> {
  if (!existsSync(socket)) return;
  try {
    // Not the run's signal, which is aborted when Ctrl-C ends it.
    const signal = AbortSignal.timeout(unmountMilliseconds);
    const client = await AgentClient.connect({ socket, timeoutMilliseconds: unmountMilliseconds, signal });
    try {
      const { mounts } = await client.call('listMounts', {});
      for (const { target } of mounts) await client.call('unmount', { target });
    } finally {
      client.close();
    }
  } catch (thrown) {
    console.error(`Agent ${name} does not unmount: ${HearthError.from(thrown).message}`);
  }
}

/** Its settings stand in its file; a variable meant for something else must not change them. */
function agentEnvironment(): Record<string, undefined> {
  const ours = Object.keys(process.env).filter((name) => name.startsWith('HEARTH_'));
  return Object.fromEntries(ours.map((name) => [name, undefined]));
}

function agentConfig(directory: RunDirectory, agent: AgentPaths, wire: string, health: string): string {
  const { bavail, bsize } = statfsSync(agent.cache);
  const budget = Math.floor(bavail * bsize * budgetShare);
  // Three agents of one machine meet on loopback, and whoever runs this names the origin: private ones are meant.
  return `# Written again by each \`make run\`.
cluster: make-run
node: ${agent.name}
store: sqlite:${directory.store}
secretFile: ${directory.secret}
wire: { listen: ['${wire}'] }
health: { listen: '${health}' }
control: { socket: ${agent.socket} }
holder: { socket: ${directory.holder.socket} }
cache:
  directories: [{ path: ${agent.cache}, budget: ${budget}, freeFloor: 5% }]
origins: { allowPrivate: true${authorities()} }
`;
}

/** `SSL_CERT_FILE` means the same as for other programs: these authorities instead of the system's. */
function authorities(): string {
  const file = process.env.SSL_CERT_FILE;
  return file ? `, certificateAuthorities: ${JSON.stringify(resolve(file))}` : '';
}

function notReady(agent: AgentPaths): HearthError {
  return new HearthError(
    'DeadlineExceeded',
    `agent ${agent.name} does not see all three agents ready after ${startMilliseconds / 1000} s; its log is ${agent.log}:\n${tail(agent.log)}`,
  );
}

function tail(log: string): string {
  return existsSync(log) ? readFileSync(log, 'utf8').split('\n').slice(-6).join('\n') : '(no log)';
}
