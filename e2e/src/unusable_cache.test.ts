import assert from 'node:assert/strict';
import { existsSync, mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { isDeepStrictEqual } from 'node:util';
import { kinds } from '@hearth/common/kubernetes';
import { type DaemonProcess, MiB, run, skip, until, writeSample } from '@hearth/common/testing';
import { type AgentProcess, type AgentSettings, Cluster } from '@hearth/common/testing/agents';
import type { Context } from 'mocha';
import { namespace, OperatorFixture } from '../../operator/src/operator/testing/operator_fixture.ts';

const waiting = ['--on-start-failure', 'wait'];

interface Shown {
  nodes: {
    node: string;
    ready: boolean;
    reason: string;
    capabilities: { name: string; ready: boolean; reason: string }[];
  }[];
}

/** An agent that cannot serve yet, and must not end. */
interface Waiting {
  agent: AgentProcess;
  process: DaemonProcess;
  /** Answer of its health server. */
  health(path: string): Promise<{ status: number; text: string } | undefined>;
}

async function launch(cluster: Cluster, name: string, settings: AgentSettings): Promise<Waiting> {
  const agent = cluster.prepare(name, { ...settings, flags: [...waiting, ...(settings.flags ?? [])] });
  const process = await agent.launch();
  const health = async (path: string) => {
    assert.equal(process.ended, undefined, `agent ${name} ended: ${process.ended?.stderr}`);
    try {
      const answer = await fetch(`http://127.0.0.1:${agent.healthPort}${path}`);
      return { status: answer.status, text: await answer.text() };
    } catch {
      return undefined;
    }
  };
  return { agent, process, health };
}

/** A file system in memory below the cluster's folder. */
async function memory(context: Context, cluster: Cluster, name: string, options: string): Promise<string> {
  if (process.getuid?.() !== 0) skip(context, 'mounts need root');
  const folder = join(cluster.folder, name);
  mkdirSync(folder);
  const { code, stderr } = await run('mount', ['-t', 'tmpfs', '-o', options, 'hearth-test', folder]);
  if (code !== 0) skip(context, `nothing can be mounted: ${stderr.trim()}`);
  return folder;
}

const memoryDevices = { null: 3, zero: 5, random: 8, urandom: 9 };
/** Runs a program where the machine's devices are but those that any container has: there is no /dev/fuse. */
const withoutFuse = [
  ...['unshare', '--mount', '--propagation', 'private', 'sh', '-ec'],
  [
    'mount -t tmpfs -o mode=755 devices /dev',
    ...Object.entries(memoryDevices).map(([name, minor]) => `mknod -m 666 /dev/${name} c 1 ${minor}`),
    'exec "$@"',
  ].join('\n'),
  'sh',
];

describe('agents whose cache cannot be used', () => {
  let cluster: Cluster;

  before(async () => {
    cluster = await Cluster.start(['well']);
  });
  after(async () => cluster?.close());

  const statusOf = async (asked: string, node: string) =>
    (await cluster.json<Shown>(asked, 'status')).nodes.find((one) => one.node === node);

  it('live, say why at each agent, and serve when the disk is mended, without a restart', async function () {
    const readOnly = await memory(this, cluster, 'read-only', 'size=256m,ro');
    const small = await memory(this, cluster, 'small', 'size=8m');
    const { cacheFolder } = cluster.agent('well');

    const cases: [name: string, directory: string, reason: RegExp, mend: () => Promise<unknown>][] = [
      ['ro', readOnly, /read-only; repair the disk/, () => run('mount', ['-o', 'remount,rw', readOnly])],
      ['tiny', small, /too small: its file system has 8 MiB/, () => run('mount', ['-o', 'remount,size=256m', small])],
      ['second', cacheFolder, /is used by another agent \(process \d+\)/, () => cluster.agent('well').stop()],
    ];
    const agents = await Promise.all(
      cases.map(([name, directory]) => launch(cluster, name, { cacheDirectories: `${directory}=32MiB:0%` })),
    );
    for (const [index, [name, , reason]] of cases.entries()) {
      const { health } = agents[index] as Waiting;
      const said = await until(`${name} says why`, async () => {
        const answer = await health('/readyz');
        return answer !== undefined && reason.test(answer.text) && answer;
      });
      assert.equal(said.status, 503);
      assert.equal((await health('/healthz'))?.status, 200);
      for (const asked of ['well', name]) {
        const seen = await until(`${name} is known to ${asked}`, async () => {
          const found = await statusOf(asked, name);
          return found !== undefined && reason.test(found.reason) && found;
        });
        assert.equal(seen.ready, false);
      }
    }
    const refused = await cluster.hearth('ro', 'dataset', 'ls');
    assert.equal(refused.code, 6);
    assert.match(refused.stderr, /the agent of this node does not serve: .*read-only/);

    const pids = agents.map(({ agent }) => agent.pid);
    for (const [, , , mend] of cases) await mend();
    for (const [index, [name]] of cases.entries()) {
      const { health } = agents[index] as Waiting;
      await until(`${name} serves`, async () => (await health('/readyz'))?.status === 200);
    }
    assert.deepEqual(
      agents.map(({ agent }) => agent.pid),
      pids,
    );
    // It hears of the others on a watch.
    const all = cases.map(([name]) => [name, true]).sort();
    await until('ro sees all of them serve, and no other', async () => {
      const { nodes } = await cluster.json<Shown>('ro', 'status');
      return isDeepStrictEqual(
        nodes.map(({ node, ready }) => [node, ready]),
        all,
      );
    });
    await Promise.all(agents.map(({ agent }) => agent.stop()));
  });

  it('store on the other of two disks while one is read-only at the start', async function () {
    const bad = await memory(this, cluster, 'bad-disk', 'size=512m,ro');
    const good = await memory(this, cluster, 'good-disk', 'size=256m');
    // The one that fails has more room.
    const directories = `${bad}=400MiB:0%,${good}=128MiB:0%`;
    const { health, agent } = await launch(cluster, 'two', { cacheDirectories: directories });
    await until('it serves', async () => (await health('/readyz'))?.status === 200);
    const disks = async () =>
      (await statusOf('two', 'two'))?.capabilities.find(({ name }) => name === 'cache-directories');
    const failing = await until('it says which disk fails', async () => {
      const found = await disks();
      return found?.ready === false && found;
    });
    assert.match(failing.reason, /bad-disk takes no new files: .*Read-only file system/);
    const metrics = (await health('/metrics'))?.text ?? '';
    assert.match(metrics, /^hearth_cache_directory_failing\{directory=".*bad-disk"\} 1$/m);
    assert.match(metrics, /^hearth_cache_directory_failing\{directory=".*good-disk"\} 0$/m);

    const warmed = async (name: string) => {
      const origin = join(cluster.folder, `origin-${name}`);
      writeSample(origin, { model: 24 * MiB });
      await cluster.json('two', 'dataset', 'add', name, origin);
      await cluster.json('two', 'warm', name, '--node', 'two');
    };
    await warmed('one');
    await run('mount', ['-o', 'remount,rw', bad]);
    await until('the disk is used again', async () => (await disks())?.ready === true);
    await warmed('two');
    await agent.stop();
  });

  it('leave the room of a kubelet alone', async function () {
    const disk = await memory(this, cluster, 'kubelets', 'size=256m');
    const flags = ['--kubelet-directory', disk];
    const { health, agent } = await launch(cluster, 'greedy', { cacheDirectories: `${disk}/c=32MiB:10%`, flags });
    const said = await until('it says why', async () => {
      const answer = await health('/readyz');
      return answer !== undefined && /set freeFloor to 20%/.test(answer.text) && answer;
    });
    assert.equal(said.status, 503);
    assert.ok(!existsSync(join(disk, 'c', 'objects')), 'nothing is written there');
    await agent.stop();
  });

  it('serve with a budget larger than their disk, and say how much is really there', async function () {
    const disk = await memory(this, cluster, 'boasting', 'size=256m');
    const { health, agent } = await launch(cluster, 'boasting', { cacheDirectories: `${disk}=100GiB:16MiB` });
    await until('it serves', async () => (await health('/readyz'))?.status === 200);
    const budget = await until('it has looked at its disk', async () =>
      (await statusOf('boasting', 'boasting'))?.capabilities.find(({ name }) => name === 'budget'),
    );
    assert.equal(budget.ready, false);
    assert.match(budget.reason, /the budget of .* is 100 GiB, but only 240 MiB \(251658240 bytes\) are available/);
    await agent.stop();
  });
});

describe('a StorageCluster none of whose agents can use its cache', () => {
  let fixture: OperatorFixture | undefined;
  let cluster: Cluster | undefined;

  before(async function () {
    fixture = await OperatorFixture.start(this);
    cluster = await Cluster.start([]);
    await fixture.node('n1', {}, false);
    await fixture.node('n2', {}, false);
    await fixture.operator();
    await fixture.cluster('models');
  });
  after(async () => {
    await cluster?.close();
    await fixture?.stop();
  });

  it('names each node with its reason, reports it once, and is Ready when the disks are mended, with FUSE or without', async function () {
    if (fixture === undefined || cluster === undefined) throw new Error('not started');
    const [api, agents, mended] = [fixture, cluster, new Map<string, () => Promise<unknown>>()];
    const secret = await api.expect('the Secret', kinds.Secret, 'hearth-models-agent');
    const file = (name: string) => join(agents.folder, name);
    for (const [name, value] of Object.entries(secret.data ?? {}))
      writeFileSync(file(name), Buffer.from(value, 'base64'));
    const readOnly = await memory(this, agents, 'read-only', 'size=256m,ro');
    const small = await memory(this, agents, 'small', 'size=8m');
    mended.set('n1', () => run('mount', ['-o', 'remount,rw', readOnly]));
    mended.set('n2', () => run('mount', ['-o', 'remount,size=256m', small]));
    const processes: DaemonProcess[] = [];
    for (const [node, directory, host, launcher] of [
      ['n1', readOnly, '127.0.0.2', []],
      ['n2', small, '127.0.0.3', withoutFuse],
    ] as const) {
      const control = ['--control-listen', `${host}:7528`, '--control-certificate', file('tls.crt')];
      const flags = [...control, '--control-key', file('tls.key'), '--control-client-authorities', file('ca.crt')];
      const settings = { clusterName: 'models', cacheDirectories: `${directory}=32MiB:0%`, flags, launcher };
      processes.push((await launch(agents, node, settings)).process);
      await api.pod(`agent-${node}`, agentLabels, node, {
        phase: 'Running',
        hostIP: host,
        hostIPs: [{ ip: host }],
        conditions: [{ type: 'Ready', status: 'False' }],
        containerStatuses: [
          { name: 'agent', image: 'none', imageID: '', ready: false, restartCount: 0, state: { running: {} } },
        ],
      });
    }
    const status = { replicas: 1, readyReplicas: 1 };
    const store = 'hearth-models-etcd';
    await api.expect('the store', kinds.StatefulSet, store);
    await api.api.patch(kinds.StatefulSet, store, namespace, { status }, { kind: 'merge', subresource: 'status' });

    const reasons = [
      /n1: The agent is not ready: cache directory .* read-only/,
      /n2: The agent is not ready: .* too small/,
    ];
    await until('both reasons are reported', async () => {
      const condition = await api.condition('models', 'Ready');
      return condition?.reason === 'NodesNotReady' && reasons.every((reason) => reason.test(condition.message));
    });
    const warnings = async () => {
      const { items } = await api.api.list(kinds.CoreEvent, { namespace: 'default' });
      return items.filter(({ reason }) => reason === 'NodesNotReady');
    };
    // Events are written after the status, by a queue of their own.
    await until('the warning is written', async () => (await warnings()).length > 0);

    for (const mend of mended.values()) await mend();
    const ready = await api.expect(
      'it is Ready',
      kinds.StorageCluster,
      'models',
      (now) => now.status?.conditions?.find(({ type }) => type === 'Ready')?.status === 'True',
    );
    assert.deepEqual(
      ready.status?.nodes?.map(({ name, ready: serves }) => [name, serves]),
      [
        ['n1', true],
        ['n2', true],
      ],
    );
    for (const one of processes) assert.equal(one.ended, undefined);

    await until('the node without FUSE is named', async () => {
      const { status: holds, reason, message = '' } = (await api.condition('models', 'DataPath')) ?? {};
      return holds === 'False' && reason === 'NoFuse' && /^1 of 2 nodes .*: n2: .*modprobe fuse/.test(message);
    });
    assert.equal((await api.condition('models', 'Ready'))?.status, 'True');
    assert.equal((await api.condition('models', 'Budgets'))?.status, 'True');
    const written = await warnings();
    assert.equal(written.length, 1, JSON.stringify(written));
  });
});

const agentLabels = {
  'app.kubernetes.io/name': 'hearth',
  'app.kubernetes.io/component': 'agent',
  'app.kubernetes.io/managed-by': 'hearth-operator',
  'hearth.storage/cluster': 'models',
  'hearth.storage/node-group': 'all',
};
