import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { isDeepStrictEqual } from 'node:util';
import { AddDatasetProgress, Dataset, type NodeStatus } from '@hearth/common/generated/hearth/v1/control.ts';
import { kinds } from '@hearth/common/kubernetes';
import { freePort } from '@hearth/common/testing';
import { statusIntervalMs } from '../../operator/src/agents/cluster_status.ts';
import { FakeAgent, nodeStatus } from '../../operator/src/agents/testing/fake_agent.ts';
import { root, run, until } from './command.ts';
import { DaemonProcess } from './daemon_process.ts';
import { needsPrograms } from './needs.ts';
import { namespace, OperatorFixture } from './operator_fixture.ts';
import { SimulatedNodes } from './simulated_nodes.ts';

const nodeCount = 200;
const datasetCount = 500;
const bytes = 1_000_000_000n;
/** Where every agent's pod says that it is: one program answers for all. */
const host = '127.0.0.9';

/** As in the image: without it Node keeps the program in memory that strips types. */
const compileCache = join(root, 'build/compile-cache');

const mostResidentMiB = 150;
const looks = 1_000;

describe('the operator with many simulated nodes and many Datasets, on a real API server', function () {
  this.timeout(600_000);
  let fixture: OperatorFixture;
  let agent: FakeAgent;
  let teller: NodeJS.Timeout;
  let operator: DaemonProcess;
  let nodes: SimulatedNodes;
  let kubeconfig: string;
  const registered = new Map<string, Dataset>();
  let uptime = 0n;

  before(async function () {
    fixture = await needsPrograms(this, () => OperatorFixture.start());
    await run(join(root, 'operator/bin/hearth-operator'), ['--help'], {
      environment: { NODE_COMPILE_CACHE: compileCache },
    });
    const user = `system:serviceaccount:${namespace}:hearth-operator`;
    kubeconfig = await fixture.server.userKubeconfig(user, ['system:authenticated']);
    await fixture.cluster('models');
    nodes = await SimulatedNodes.start(fixture.server, host);
    await each(nodeCount, async (index) => {
      const labels = { 'kubernetes.io/os': 'linux', 'topology.kubernetes.io/zone': `z${index % 3}` };
      await fixture.api.create(kinds.Node, {
        apiVersion: 'v1',
        kind: 'Node',
        metadata: { name: `n${index}`, labels },
      });
    });
    await each(datasetCount, async (index) => {
      await fixture.api.create(kinds.Dataset, {
        apiVersion: 'hearth.storage/v1alpha1',
        kind: 'Dataset',
        metadata: { name: `d${index}`, namespace: 'default' },
        spec: { source: { selfTest: {} } },
      } as never);
    });
  });
  after(async () => {
    clearInterval(teller);
    await operator?.end('SIGKILL');
    await nodes?.stop();
    agent?.kill();
    await fixture?.stop();
  });

  async function start(): Promise<void> {
    operator = new DaemonProcess(join(root, 'operator/bin/hearth-operator'), [], {
      KUBECONFIG: kubeconfig,
      POD_NAMESPACE: namespace,
      POD_NAME: 'operator-0',
      NODE_COMPILE_CACHE: compileCache,
      HEARTH_IMAGE: 'registry/hearth:1',
      HEARTH_ETCD_IMAGE: 'registry/etcd:3',
      HEARTH_HTTP_PORT: String(await freePort()),
    });
  }

  /** Every Dataset is whole on ten nodes. */
  function status() {
    const nodes = Array.from({ length: nodeCount }, (_, index): NodeStatus => {
      const own = [...registered.keys()].filter(
        (_name, number) => number % nodeCount >= index && number % nodeCount < index + 10,
      );
      const residentBytes = Object.fromEntries(own.map((name) => [name, bytes]));
      const usedBytes = BigInt(own.length) * bytes;
      const fields = {
        zone: `z${index % 3}`,
        budgetBytes: 1000n * bytes,
        usedBytes,
        residentBytes,
        uptimeSeconds: uptime,
      };
      return nodeStatus(`n${index}`, fields);
    });
    return { cluster: 'models', nodes, datasets: [...registered.values()] };
  }

  function register(name: string): Dataset {
    const residency = Array.from({ length: 10 }, (_, index) => ({
      node: `n${index}`,
      residentBytes: bytes,
      dataPath: 'view',
    }));
    const made = { name, manifest: 'a'.repeat(64), revision: 'r1', files: 10n, bytes, state: 'Ready', residency };
    const dataset = Dataset.fromPartial(made as never);
    registered.set(name, dataset);
    return dataset;
  }

  it('settles', async () => {
    await start();
    const secret = await fixture.expect('the Secret', kinds.Secret, 'hearth-models-agent');
    const texts = Object.fromEntries(
      Object.entries(secret.data ?? {}).map(([key, value]) => [key, Buffer.from(value, 'base64').toString()]),
    );
    const began = performance.now();
    const addDataset = async function* ({ name }: { name: string }) {
      yield AddDatasetProgress.fromPartial({ dataset: register(name) });
    };
    const answers = { addDataset, setCredentials: () => ({}), configureNode: () => ({}) };
    agent = await FakeAgent.start('n0', texts, answers as never, { host, port: 7528 });
    agent.tell(status());
    teller = setInterval(() => {
      uptime += 10n;
      agent.tell(status());
    }, statusIntervalMs(nodeCount));
    await until('all is told', async () => {
      const datasets = await fixture.api.list(kinds.Dataset, {});
      const caches = await fixture.api.list(kinds.NodeCache, {});
      const { status: cluster } = (await fixture.api.get(kinds.StorageCluster, 'models')) ?? {};
      const ready = datasets.items.filter(({ status: told }) =>
        told?.conditions?.some((one) => one.type === 'Ready' && one.status === 'True'),
      );
      const known = caches.items.filter(({ status: told }) => told?.ready === true);
      return ready.length === datasetCount && known.length === nodeCount && cluster?.nodesReady === nodeCount;
    });
    const seconds = ((performance.now() - began) / 1000).toFixed(0);
    const resident = residentMiB();
    console.log(`      settled in ${seconds} s, ${resident.toFixed(0)} MiB`);
    assert.ok(resident < mostResidentMiB, `${resident} MiB`);
  });

  it('rewrites nothing after a restart', async () => {
    // From now on nobody else writes.
    await nodes.stop();
    let before = await versions();
    await until('all is written', async () => {
      const last = before;
      await sleep(15_000);
      before = await versions();
      return isDeepStrictEqual(last, before);
    });
    await operator.end('SIGTERM');
    await start();
    await until('it watches', () => agent.watchers > 0);
    // What was delayed would be written by then.
    await sleep(20_000);
    assert.deepEqual(await versions(), before);
  });

  it('idles in little memory, and sleeps most of the time', async () => {
    // The operator of before would still be telling events, of which it tells five a second.
    const [from, began] = [cpuSeconds(), performance.now()];
    let sleeping = 0;
    for (let look = 0; look < looks; look += 1) {
      await sleep(20);
      // One that looks again and again runs or waits for a processor, however busy the machine is.
      if (statOf(pid()).state === 'S') sleeping += 1;
    }
    const cores = (cpuSeconds() - from) / ((performance.now() - began) / 1000);
    const resident = residentMiB();
    console.log(
      `      idle: ${(cores * 100).toFixed(1)} % of a core, asleep in ${sleeping} of ${looks} looks, ` +
        `${resident.toFixed(0)} MiB`,
    );
    assert.ok(resident < mostResidentMiB, `${resident} MiB`);
    assert.ok(sleeping > looks / 2, `asleep in ${sleeping} of ${looks} looks`);
  });

  async function versions() {
    const datasets = await fixture.api.list(kinds.Dataset, {});
    const told = datasets.items.map(({ metadata }) => [`Dataset ${metadata.name}`, metadata.resourceVersion]);
    return { ...(await fixture.versions()), ...Object.fromEntries(told) };
  }

  const pid = () => operator.child.pid ?? 0;
  const cpuSeconds = (): number => statOf(pid()).cpuSeconds;
  /** Without the program itself, which the replicas and other programs of a node share. */
  function residentMiB(): number {
    return Number(/^RssAnon:\s+(\d+) kB$/m.exec(readFileSync(`/proc/${pid()}/status`, 'utf8'))?.[1]) / 1024;
  }
});

/** Of a process: the state of its first thread, which runs all JavaScript, and what all of them took. */
function statOf(pid: number): { state: string; cpuSeconds: number } {
  const fields = readFileSync(`/proc/${pid}/stat`, 'utf8').split(') ')[1]?.split(' ') ?? [];
  return { state: fields[0] ?? '', cpuSeconds: (Number(fields[11]) + Number(fields[12])) / 100 };
}

/** Twenty at a time. */
async function each(count: number, work: (index: number) => Promise<void>): Promise<void> {
  let next = 0;
  const worker = async () => {
    for (let index = next++; index < count; index = next++) await work(index);
  };
  await Promise.all(Array.from({ length: 20 }, worker));
}
