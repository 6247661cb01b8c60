import { rmSync, statSync } from 'node:fs';
import { basename, join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { run } from '@hearth/common/testing';
import { cacheFiles, flipBits } from '../src/bit_rot.ts';
import type { Stage } from './stage.ts';

export interface Fault {
  name: string;
  /** Brings it about and takes it back; what it returns is for the log. */
  happen(stage: Stage, random: () => number): Promise<string>;
}

const pick = <T>(choices: readonly T[], random: () => number): T => {
  const choice = choices[Math.floor(random() * choices.length)];
  if (choice === undefined) throw new Error('there is nothing to choose from');
  return choice;
};

const handOverMs = 10_000;

const killAgent: Fault = {
  name: 'agent killed',
  async happen({ restarted, cluster }, random) {
    const agent = cluster.agent(pick(restarted, random));
    await agent.kill();
    await sleep(random() * 2_000);
    await agent.start();
    return agent.name;
  },
};

const killHolder: Fault = {
  name: 'holder killed',
  async happen({ cluster }, random) {
    await cluster.endHolder('SIGKILL');
    await sleep(random() * 1_000);
    await cluster.startHolder();
    // The agents give their mounts to the new one: until then one that goes takes its mount along.
    await sleep(handOverMs);
    return '';
  },
};

const replaceHolder: Fault = {
  name: 'holder upgraded',
  async happen({ cluster }) {
    const outcome = await cluster.replaceHolder();
    await sleep(handOverMs);
    return `the former one ended with ${outcome?.code}`;
  },
};

const restartInOrder: Fault = {
  name: 'agent ended in order',
  async happen({ restarted, cluster }, random) {
    const agent = cluster.agent(pick(restarted, random));
    const { code, stderr } = await agent.stop();
    if (code !== 0) throw new Error(`agent ${agent.name} ended with ${code}: ${stderr.slice(-500)}`);
    await agent.start();
    return agent.name;
  },
};

const stopPeer: Fault = {
  name: 'peer stopped',
  async happen({ agents, cluster }, random) {
    const agent = cluster.agent(pick(agents, random));
    const { pid } = agent;
    process.kill(pid, 'SIGSTOP');
    await sleep(1_000 + random() * 6_000);
    process.kill(pid, 'SIGCONT');
    return agent.name;
  },
};

const fillDisk: Fault = {
  name: 'disk filled',
  async happen(stage, random) {
    const agent = pick(stage.agents, random);
    const file = join(stage.diskOf(agent), 'of-another-program');
    // Until there is no room: the last of it by single blocks.
    await run('dd', ['if=/dev/zero', `of=${file}`, 'bs=1M', 'status=none']);
    await sleep(3_000 + random() * 5_000);
    rmSync(file, { force: true });
    return agent;
  },
};

/** Of the agent that answers every read itself, so that none of these bytes may ever be seen. */
const bitsFlipped: Fault = {
  name: 'bits flipped',
  async happen(stage, random) {
    const agent = stage.agents.find((name) => stage.dataPathOf(name) === 'daemon');
    if (agent === undefined) return 'nowhere';
    const files = cacheFiles(join(stage.diskOf(agent), 'cache'));
    if (files.length === 0) return 'nothing cached';
    const file = pick(files, random);
    try {
      const { size } = statSync(file);
      flipBits(
        file,
        Array.from({ length: 8 }, () => Math.floor(random() * size)),
      );
    } catch {
      return 'evicted meanwhile';
    }
    return `8 bytes of ${basename(file).slice(0, 8)}`;
  },
};

const changeOrigin: Fault = {
  name: 'origin changed',
  async happen(stage) {
    await stage.changeOrigin();
    return `state ${stage.changing.seed}`;
  },
};

/** It goes away, comes back at 1 MB/s, and recovers. Reads wait for it meanwhile, and none fails. */
const originAway: Fault = {
  name: 'origin away',
  async happen({ gate }, random) {
    const awayMs = 2_000 + random() * 28_000;
    await gate.close();
    await sleep(awayMs);
    gate.bytesPerSecond = 1_000_000;
    await gate.open();
    await sleep(5_000 + random() * 10_000);
    gate.bytesPerSecond = undefined;
    return `for ${(awayMs / 1000).toFixed(1)} s`;
  },
};

/** Warmed while others read: more than fits, so that eviction goes on. */
const warm: Fault = {
  name: 'file warmed',
  async happen({ agents, cluster, files }, random) {
    const agent = pick(agents, random);
    const { name } = pick(files, random);
    const { code } = await cluster.hearth(agent, 'warm', 'soak', name, '--node', agent);
    return `${name} on ${agent}, ${code === 0 ? 'there' : `not there (${code})`}`;
  },
};

const verify: Fault = {
  name: 'file verified',
  async happen({ agents, cluster, files }, random) {
    const agent = pick(agents, random);
    const { name } = pick(files, random);
    const { code } = await cluster.hearth(agent, 'verify', 'soak', name);
    return `${name} on ${agent}, exit ${code}`;
  },
};

export const faults: readonly Fault[] = [
  killAgent,
  killHolder,
  replaceHolder,
  restartInOrder,
  stopPeer,
  fillDisk,
  bitsFlipped,
  changeOrigin,
  originAway,
  warm,
  verify,
];
