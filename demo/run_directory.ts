import { existsSync, mkdirSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { join, resolve } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { HearthError, longestSocketPath } from '@hearth/common';
import { mountPointsBelow } from '@hearth/common/testing';
import { root, run } from '../scripts/test/command.ts';

export const agentNames = ['a', 'b', 'c'] as const;

export interface AgentPaths {
  name: string;
  config: string;
  cache: string;
  socket: string;
  log: string;
  pid: string;
  mount: string;
}

/** Where a run keeps its caches, sockets, logs and mount points: `HEARTH_RUN_DIR`, else `.hearth` of the checkout. */
export class RunDirectory {
  readonly path: string;
  readonly secret: string;
  readonly store: string;
  readonly holder: { socket: string; log: string; pid: string };
  readonly agents: readonly AgentPaths[];
  readonly #owner: string;

  constructor(environment: NodeJS.ProcessEnv) {
    this.path = resolve(root, environment.HEARTH_RUN_DIR || '.hearth');
    const at = (...names: string[]) => join(this.path, ...names);
    this.secret = at('secret');
    this.store = at('store.sqlite');
    this.holder = { socket: at('holder.sock'), log: at('holder.log'), pid: at('holder.pid') };
    this.#owner = at('run.pid');
    this.agents = agentNames.map((name) => ({
      name,
      config: at(name, 'agent.yaml'),
      cache: at(name, 'cache'),
      socket: at(name, 'agent.sock'),
      log: at(name, 'agent.log'),
      pid: at(name, 'agent.pid'),
      mount: at('mnt', name),
    }));
    for (const { socket } of this.agents) {
      if (Buffer.byteLength(socket) <= longestSocketPath) continue;
      throw new HearthError(
        'InvalidArgument',
        `the path ${socket} is too long for a Unix socket; set HEARTH_RUN_DIR to a shorter directory`,
      );
    }
  }

  /** Takes the directory for this process and clears what a run that crashed left: processes and mounts. */
  async claim(say: (line: string) => void): Promise<void> {
    this.#make();
    const owner = readPid(this.#owner);
    if (owner !== undefined && owner !== process.pid && commandLine(owner).includes('demo/main.ts')) {
      throw new HearthError(
        'InUse',
        `process ${owner} runs in ${this.path}; end it by Ctrl-C or set HEARTH_RUN_DIR to another directory`,
      );
    }
    writeFileSync(this.#owner, `${process.pid}\n`);
    for (const file of [...this.agents.map((agent) => agent.pid), this.holder.pid]) {
      const pid = readPid(file);
      if (pid !== undefined && this.#isOurs(pid)) {
        say(`Ending process ${pid}, which a former run left behind.`);
        await endProcess(pid);
      }
      rmSync(file, { force: true });
    }
    for (const target of this.mountPoints()) {
      say(`Unmounting ${target}, which a former run left behind.`);
      await detach(target);
    }
    for (const agent of this.agents) mkdirSync(agent.mount, { recursive: true });
  }

  /** One that is new asks git, and all that asks git, to leave it alone: it may be anywhere in the checkout. */
  #make(): void {
    mkdirSync(this.path, { recursive: true });
    if (readdirSync(this.path).length === 0) writeFileSync(join(this.path, '.gitignore'), '*\n');
    for (const agent of this.agents) mkdirSync(agent.cache, { recursive: true });
  }

  release(): void {
    rmSync(this.#owner, { force: true });
  }

  /** Mount points below the directory, the innermost first. */
  mountPoints(): string[] {
    return mountPointsBelow(this.path);
  }

  /** Process numbers are used again: ours have this directory on their command line. */
  #isOurs(pid: number): boolean {
    return commandLine(pid).includes(`${this.path}/`);
  }
}

/** umount(8) with a deadline; lazily when the mount is busy, since its server has gone. */
export async function detach(target: string): Promise<void> {
  const options = { quiet: true, timeoutMs: 10_000 };
  const outcome = await run('umount', ['--no-canonicalize', target], options);
  if (outcome.code !== 0) await run('umount', ['--no-canonicalize', '--lazy', target], options);
}

/** SIGTERM, and SIGKILL to one that has not ended after 15 s. */
export async function endProcess(pid: number): Promise<void> {
  const signal = (name: NodeJS.Signals) => {
    try {
      process.kill(pid, name);
    } catch (error) {
      if ((error as NodeJS.ErrnoException).code !== 'ESRCH') throw error;
    }
  };
  signal('SIGTERM');
  const deadline = Date.now() + 15_000;
  while (commandLine(pid) !== '' && Date.now() < deadline) await sleep(50);
  if (commandLine(pid) !== '') signal('SIGKILL');
}

/** Arguments joined by spaces; empty for a process that has ended (a zombie has none either). */
function commandLine(pid: number): string {
  try {
    return readFileSync(`/proc/${pid}/cmdline`, 'utf8').replaceAll('\0', ' ');
  } catch {
    return '';
  }
}

function readPid(file: string): number | undefined {
  const pid = existsSync(file) ? Number(readFileSync(file, 'utf8').trim()) : 0;
  return Number.isInteger(pid) && pid > 1 ? pid : undefined;
}
