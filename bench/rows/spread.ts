import { basename, join } from 'node:path';
import { Nginx } from '@hearth/common/testing/origins';
import { Cluster } from '../cluster.ts';
import { run, seconds } from '../command.ts';
import { makeFiles } from '../data.ts';
import { Network, quiet } from '../network.ts';
import type { Group, Surroundings } from '../plan.ts';
import { median } from '../result.ts';

const bitsPerSecond = 200e6;
const datasetBytes = 256 * 2 ** 20;
const fileCount = 4;
const sizes = [1, 2, 4, 8];
const largest = Math.max(...sizes);

const origin = 'origin';
const agentNames = (count: number): string[] => Array.from({ length: count }, (_, index) => `agent-${index}`);

/** Times of one warm job onto some agents. */
interface Spread {
  /** From the request to the job's success. */
  seconds: number;
  /** In multiples of the dataset: bodies that the origin sent, frames that the busiest agent's link carried. */
  fromOrigin: number;
  received: number;
  sent: number;
}

interface Setting {
  around: Surroundings;
  network: Network;
  nginx: Nginx;
  urls: string[];
}

/** The dataset onto `agents` new agents at once. */
async function spread({ around, network, nginx, urls }: Setting, agents: number): Promise<Spread> {
  const nodes = agentNames(agents);
  const directory = join(around.directory, 'agents');
  const { release } = around;
  const placeOf = (node: string) => network.place(node);
  const cluster = await Cluster.start(directory, nodes, 2 * datasetBytes, { release, placeOf });
  try {
    await cluster.hearth(['dataset', 'add', 'spread', ...urls, '--allow-private']);
    const links = await Promise.all(nodes.map((node) => network.carried(node)));
    const sentBefore = await nginx.bytesSent();
    const told = await cluster.hearth(['--json', 'warm', 'spread']); // ends when the job has succeeded
    const ended = Date.now();
    const { createdAt } = JSON.parse(told.trim().split('\n').at(-1) ?? '') as { createdAt: string };
    await quiet(network, origin);
    const carried = await Promise.all(nodes.map((node) => network.carried(node)));
    const most = (direction: 'received' | 'sent'): number =>
      Math.max(...carried.map((link, index) => link[direction] - (links[index]?.[direction] ?? 0))) / datasetBytes;
    return {
      seconds: (ended - Date.parse(createdAt)) / 1000,
      fromOrigin: ((await nginx.bytesSent()) - sentBefore) / datasetBytes,
      received: most('received'),
      sent: most('sent'),
    };
  } finally {
    await cluster.stop();
  }
}

/** One plain transfer of the same bytes over the same links. */
async function transfer({ network, urls }: Setting): Promise<number> {
  const args = urls.flatMap((url) => ['-o', '/dev/null', url]);
  const [program = '', ...words] = [...network.place('agent-0').launcher, 'curl', '-sSf', ...args];
  return await seconds(() => run(program, words));
}

function table(measured: Map<number, Spread[]>): string {
  const head =
    'agents  seconds  from the origin  busiest link received  sent   (medians; bytes as multiples of the dataset)';
  const lines = [...measured].map(([agents, all]) => {
    const of = (key: keyof Spread): string => median(all.map((each) => each[key])).toFixed(2);
    return (
      `${String(agents).padStart(6)}  ${of('seconds').padStart(7)}  ${of('fromOrigin').padStart(15)}  ` +
      `${of('received').padStart(21)}  ${of('sent').padStart(4)}`
    );
  });
  return `\n${[head, ...lines].join('\n')}\n`;
}

/** One dataset onto N agents at once, in network namespaces, all links and the origin's shaped to one rate. */
export const spreading: Group = {
  ids: ['spread'],
  share: 1 / 3,
  alone: true,
  async measure(around: Surroundings): Promise<void> {
    const served = join(around.directory, 'served');
    const files = makeFiles(served, fileCount, datasetBytes);
    const network = await Network.create([origin, ...agentNames(largest)], bitsPerSecond);
    let nginx: Nginx | undefined;
    const plain: number[] = [];
    const measured = new Map<number, Spread[]>(sizes.map((agents) => [agents, []]));
    try {
      nginx = await Nginx.start(join(around.directory, 'nginx'), served, network.place(origin));
      const url = nginx.url;
      const setting: Setting = { around, network, nginx, urls: files.map((file) => `${url}/${basename(file)}`) };
      for (let count = 0; count < around.runs; ++count) {
        plain.push(await transfer(setting));
        for (const [agents, all] of measured) all.push(await spread(setting, agents));
      }
    } finally {
      await nginx?.stop();
      await network.remove();
    }
    const alone = measured.get(1) ?? [];
    for (const [agents, all] of measured) {
      const onto = agents === 1 ? 'one agent' : `${agents} agents at once`;
      const value = (key: keyof Spread) => async (count: number) => all[count]?.[key] ?? Number.NaN;
      await around.row({
        id: `spread-time-${agents}`,
        what: `256 MiB onto ${onto} over links of 200 Mbit/s, against ${agents === 1 ? 'one curl' : 'one agent'}`,
        unit: 's',
        better: 'less',
        target: 1 / 1.3,
        sides: {
          value: value('seconds'),
          baseline: async (count) => (agents === 1 ? plain[count] : alone[count]?.seconds) ?? Number.NaN,
        },
      });
      await around.row({
        id: `spread-origin-${agents}`,
        what: `size of the data / bytes the origin sent, ${onto}`,
        unit: 'x',
        better: 'less',
        target: 1,
        sides: { value: value('fromOrigin'), baseline: async () => 1 },
      });
    }
    console.log(table(measured));
  },
};
