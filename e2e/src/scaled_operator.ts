import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { AddDatasetProgress, Dataset, type NodeStatus } from '@hearth/common/generated/hearth/v1/control.ts';
import { kinds } from '@hearth/common/kubernetes';
import { elapse, root, run, steady, until } from '@hearth/common/testing';
import { OperatorProcess } from '@hearth/common/testing/kubernetes';
import { statusIntervalMs } from '../../operator/src/agents/agents.ts';
import { FakeAgent, nodeStatus } from '../../operator/src/agents/testing/fake_agent.ts';
import { OperatorFixture } from '../../operator/src/operator/testing/operator_fixture.ts';
import { SimulatedNodes } from './simulated_nodes.ts';

export const nodeCount = 200;
export const datasetCount = 500;
const bytes = 1_000_000_000n;
/** Where every agent's pod says that it is: one program answers for all. */
const host = '127.0.0.9';

/** As in the image: without it Node keeps the program in memory that strips types. */
const compileCache = join(root, 'build/compile-cache');

type Versions = Record<string, string | undefined>;

/** The program of the operator on a real API server, with many simulated nodes and many Datasets that are whole on ten each. */
export class ScaledOperator {
  readonly #fixture: OperatorFixture;
  readonly #nodes: SimulatedNodes;
  readonly #kubeconfig: string;
  readonly #registered = new Map<string, Dataset>();
  #operator: OperatorProcess | undefined;
  #agent: FakeAgent | undefined;
  #teller: NodeJS.Timeout | undefined;
  #uptime = 0n;

  private constructor(fixture: OperatorFixture, nodes: SimulatedNodes, kubeconfig: string) {
    this.#fixture = fixture;
    this.#nodes = nodes;
    this.#kubeconfig = kubeconfig;
  }

  /** With everything but the operator. Throws ToolUnavailable where the programs cannot be built. */
  static async start(): Promise<ScaledOperator> {
    const fixture = await OperatorFixture.start();
    await run(join(root, 'operator/bin/hearth-operator'), ['--help'], {
      environment: { NODE_COMPILE_CACHE: compileCache },
    });
    let stop = () => fixture.stop();
    try {
      const kubeconfig = fixture.operatorKubeconfig();
      await fixture.cluster('models');
      const started = new ScaledOperator(fixture, await SimulatedNodes.start(fixture.server, host), kubeconfig);
      stop = () => started.stop();
      await started.#makeObjects();
      return started;
    } catch (error) {
      await stop();
      throw error;
    }
  }

  async stop(): Promise<void> {
    clearInterval(this.#teller);
    await this.#operator?.end();
    await this.#nodes.stop();
    this.#agent?.kill();
    await this.#fixture.stop();
  }

  /** Starts the operator, and the agent that it asks for its certificates; ends when everything is known and Ready. */
  async settle(): Promise<void> {
    const fixture = this.#fixture;
    await this.#startOperator();
    const secret = await fixture.expect('the Secret', kinds.Secret, 'hearth-models-agent');
    const texts = Object.fromEntries(
      Object.entries(secret.data ?? {}).map(([key, value]) => [key, Buffer.from(value, 'base64').toString()]),
    );
    const register = (name: string) => this.#register(name);
    const addDataset = async function* ({ name }: { name: string }) {
      yield AddDatasetProgress.fromPartial({ dataset: register(name) });
    };
    const answers = { addDataset, setCredentials: () => ({}), configureNode: () => ({}) };
    const agent = await FakeAgent.start('n0', texts, answers as never, { host, port: 7528 });
    this.#agent = agent;
    agent.publish(this.#status());
    this.#teller = setInterval(() => {
      this.#uptime += 10n;
      agent.publish(this.#status());
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
  }

  /**
   * Ends what else writes, waits until nothing is written any more, and restarts the operator: from then on it idles. The
   * versions of all that it writes, before and after.
   */
  async restartedWhenQuiet(): Promise<[before: Versions, after: Versions]> {
    await this.#nodes.stop();
    const before = await steady('what is written', 15_000, () => this.#versions());
    // It would still be sending events, of which it sends five a second.
    await this.#operator?.end('SIGTERM');
    await this.#startOperator();
    await until('it watches', () => (this.#agent?.watchers ?? 0) > 0);
    await elapse(20_000, 'what was delayed would be written');
    return [before, await this.#versions()];
  }

  /** The state of its first thread, which runs all JavaScript, and what all of them took. */
  stat(): { state: string; cpuSeconds: number } {
    const fields = readFileSync(`/proc/${this.#pid}/stat`, 'utf8').split(') ')[1]?.split(' ') ?? [];
    return { state: fields[0] ?? '', cpuSeconds: (Number(fields[11]) + Number(fields[12])) / 100 };
  }

  /** Without the program itself, which the replicas and other programs of a node share. */
  residentMiB(): number {
    return Number(/^RssAnon:\s+(\d+) kB$/m.exec(readFileSync(`/proc/${this.#pid}/status`, 'utf8'))?.[1]) / 1024;
  }

  get #pid(): number {
    return this.#operator?.pid ?? 0;
  }

  async #versions(): Promise<Versions> {
    const datasets = await this.#fixture.api.list(kinds.Dataset, {});
    const written = datasets.items.map(({ metadata }) => [`Dataset ${metadata.name}`, metadata.resourceVersion]);
    return { ...(await this.#fixture.versions()), ...Object.fromEntries(written) };
  }

  async #makeObjects(): Promise<void> {
    await each(nodeCount, async (index) => {
      const labels = { 'kubernetes.io/os': 'linux', 'topology.kubernetes.io/zone': `z${index % 3}` };
      await this.#fixture.api.create(kinds.Node, {
        apiVersion: 'v1',
        kind: 'Node',
        metadata: { name: `n${index}`, labels },
      });
    });
    await each(datasetCount, async (index) => {
      await this.#fixture.api.create(kinds.Dataset, {
        apiVersion: 'hearth.storage/v1alpha1',
        kind: 'Dataset',
        metadata: { name: `d${index}`, namespace: 'default' },
        spec: { source: { selfTest: {} } },
      } as never);
    });
  }

  async #startOperator(): Promise<void> {
    this.#operator = await OperatorProcess.start(this.#kubeconfig, { NODE_COMPILE_CACHE: compileCache });
  }

  /** Every Dataset is whole on ten nodes. */
  #status() {
    const nodes = Array.from({ length: nodeCount }, (_, index): NodeStatus => {
      const own = [...this.#registered.keys()].filter(
        (_name, number) => number % nodeCount >= index && number % nodeCount < index + 10,
      );
      const residentBytes = Object.fromEntries(own.map((name) => [name, bytes]));
      const usedBytes = BigInt(own.length) * bytes;
      const fields = {
        zone: `z${index % 3}`,
        budgetBytes: 1000n * bytes,
        usedBytes,
        residentBytes,
        uptimeSeconds: this.#uptime,
      };
      return nodeStatus(`n${index}`, fields);
    });
    return { cluster: 'models', nodes, datasets: [...this.#registered.values()] };
  }

  #register(name: string): Dataset {
    const residency = Array.from({ length: 10 }, (_, index) => ({
      node: `n${index}`,
      residentBytes: bytes,
      dataPath: 'view',
    }));
    const made = { name, manifest: 'a'.repeat(64), revision: 'r1', files: 10n, bytes, state: 'Ready', residency };
    const dataset = Dataset.fromPartial(made as never);
    this.#registered.set(name, dataset);
    return dataset;
  }
}

/** Twenty at a time. */
async function each(count: number, work: (index: number) => Promise<void>): Promise<void> {
  let next = 0;
  const worker = async () => {
    for (let index = next++; index < count; index = next++) await work(index);
  };
  await Promise.all(Array.from({ length: 20 }, worker));
}

const windowSeconds = 20;

// For `make bench`: in percent of a core, what it takes while nothing happens; a line for each of so many windows.
if (import.meta.main) {
  const measured = await ScaledOperator.start();
  try {
    await measured.settle();
    await measured.restartedWhenQuiet();
    for (let window = 0; window < Number(process.argv[2]); ++window) {
      const [from, began] = [measured.stat().cpuSeconds, performance.now()];
      await sleep(windowSeconds * 1000);
      const seconds = (performance.now() - began) / 1000;
      console.log((100 * (measured.stat().cpuSeconds - from)) / seconds);
    }
  } finally {
    await measured.stop();
  }
}
