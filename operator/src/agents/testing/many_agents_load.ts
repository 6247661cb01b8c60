import { fork } from 'node:child_process';
import { once } from 'node:events';
import { monitorEventLoopDelay } from 'node:perf_hooks';
import { silentLogger } from '@hearth/common';
import { elapse, until } from '@hearth/common/testing';
import { agentName, planCertificates } from '../../certificates/index.ts';
import { AgentDirectory } from '../agent_directory.ts';
import { ManyAgents, type ManyAgentsOptions } from './many_agents.ts';

const cluster = 'models';
const mib = 1 << 20;

export interface ManyAgentsLoad {
  /** Until the first status, which has the reports of all agents. */
  firstStatusSeconds: number;
  residentMiB: number;
  /** Of one core, while agents report changes. */
  cores: number;
  longestPauseMs: number;
  statuses: number;
}

/** The load of the streams of many busy agents on the operator's process, this one; the agents are another process. */
export async function manyAgentsLoad(
  { nodes, datasets, resident }: Omit<ManyAgentsOptions, 'texts'>,
  seconds: number,
): Promise<ManyAgentsLoad> {
  const { texts } = await planCertificates({ cluster, peers: [] }, {}, new Date());
  const child = fork(import.meta.filename, ['agents'], { stdio: ['ignore', 'inherit', 'inherit', 'ipc'] });
  const directory = new AgentDirectory(silentLogger);
  try {
    child.send({ texts: texts.agent, nodes, datasets, resident });
    const [port] = (await once(child, 'message')) as [number];
    const { operator } = texts;
    const identity = {
      certificate: operator['tls.crt'] ?? '',
      key: operator['tls.key'] ?? '',
      authorities: operator['ca.crt'] ?? '',
      serverName: agentName(cluster),
    };
    const endpoints = Array.from({ length: nodes }, (_, index) => ({
      node: `n${index}`,
      address: `127.0.${1 + Math.floor(index / 250)}.${1 + (index % 250)}:${port}`,
    }));
    let statuses = 0;
    directory.onChange(() => statuses++);
    const began = performance.now();
    directory.configure(cluster, identity, endpoints);
    const status = () => directory.get(cluster)?.status;
    await until('a status', () => status() !== undefined);
    const firstStatusSeconds = (performance.now() - began) / 1000;
    await until('all reports', () => [...(status()?.nodes.values() ?? [])].every(({ usedBytes }) => usedBytes > 0n));
    const rows = [...(status()?.datasets.values() ?? [])].reduce((sum, { residency }) => sum + residency.length, 0);
    if (rows !== nodes * resident) throw new Error(`${rows} rows of residency are known, not ${nodes * resident}`);
    const delay = monitorEventLoopDelay({ resolution: 10 });
    delay.enable();
    statuses = 0;
    const before = process.cpuUsage();
    await elapse(seconds * 1000, 'the load is counted over a time');
    const { user, system } = process.cpuUsage(before);
    return {
      firstStatusSeconds,
      residentMiB: process.memoryUsage.rss() / mib,
      cores: (user + system) / 1e6 / seconds,
      longestPauseMs: delay.max / 1e6,
      statuses,
    };
  } finally {
    child.kill();
    await directory.close();
  }
}

if (import.meta.main && process.argv[2] === 'agents') {
  process.once('message', async (options: ManyAgentsOptions) => {
    const agents = new ManyAgents(options);
    await agents.start();
    process.send?.(agents.port);
  });
} else if (import.meta.main) {
  // For `make bench`: a thousand agents that each hold a tenth of 2,000 Datasets, as JSON.
  console.log(JSON.stringify(await manyAgentsLoad({ nodes: 1_000, datasets: 2_000, resident: 200 }, 60)));
}
