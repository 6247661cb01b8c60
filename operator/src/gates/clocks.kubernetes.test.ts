import assert from 'node:assert/strict';
import { join } from 'node:path';
import { kinds } from '@hearth/common/kubernetes';
import { preloadAnnotation } from '@hearth/common/resources';
import { elapse, until } from '@hearth/common/testing';
import { OperatorProcess } from '@hearth/common/testing/kubernetes';
import { datasetObject, GateCluster, isGated, podObject } from './testing/gate_cluster.ts';

const tenMinutesMs = 600_000;
const timeoutSeconds = 8;
/** By a clock that is not the API server's they would open at once, or ten minutes later. */
const wrongSeconds = tenMinutesMs / 1000 / 2;

function assertInTime(seconds: number): void {
  // Creation is given in whole seconds, cut off, and the clock is known within one.
  assert.ok(seconds > timeoutSeconds - 2.5 && seconds < wrongSeconds, `after ${seconds} s`);
}

describe('gates and preloads where the clocks of operator and API server differ', () => {
  let cluster: GateCluster;
  const processes: OperatorProcess[] = [];

  before(async function () {
    cluster = await GateCluster.start(this);
    await cluster.node('n1');
    // No agent ever lists it, so that only the time of its gate lets a pod go.
    await cluster.apply(datasetObject('model', { mode: 'Wait', timeout: `${timeoutSeconds}s` }));
    await cluster.apply(datasetObject('slow', { mode: 'Wait', timeout: `${wrongSeconds}s` }));
  });
  after(async () => {
    for (const one of processes) await one.end();
    await cluster?.stop();
  });

  /** The program of the operator, when it leads. */
  async function operator(skewMs: number): Promise<OperatorProcess> {
    const started = await OperatorProcess.start(cluster.operatorKubeconfig(), {
      NODE_OPTIONS: `--import=${join(import.meta.dirname, 'testing/skewed_clock.ts')}`,
      CLOCK_SKEW_MS: String(skewMs),
    });
    processes.push(started);
    await started.leads();
    return started;
  }

  /** A pod as admission leaves it. */
  async function gated(name: string, dataset = 'model'): Promise<void> {
    const metadata = { name, namespace: 'default', annotations: { [preloadAnnotation]: `${name}-0123456789` } };
    const schedulingGates = [{ name: 'hearth.storage/preload' }];
    await cluster.api.create(
      kinds.Pod,
      podObject(name, { datasets: [dataset] }, { metadata, spec: { schedulingGates } }),
    );
  }

  for (const [name, skewMs] of Object.entries({ ahead: tenMinutesMs, behind: -tenMinutesMs })) {
    it(`open when their time is over, though the operator is ten minutes ${name}`, async () => {
      const running = await operator(skewMs);
      const began = performance.now();
      await gated(name);
      await cluster.released(name);
      assertInTime((performance.now() - began) / 1000);
      const event = await cluster.event(name, /GateTimedOut/);
      const waited = Number(/it waited (\d+) s/.exec(event)?.[1]);
      assert.ok(waited >= timeoutSeconds - 1 && waited < wrongSeconds, event);
      await running.end('SIGTERM');
    });

    it(`fail at their deadline, though the operator is ten minutes ${name}`, async () => {
      const running = await operator(skewMs);
      const metadata = { name: `late-${name}`, namespace: 'default' };
      const spec = {
        datasets: [{ name: 'model' }],
        placement: { nodeNames: ['n1'] },
        deadline: `${timeoutSeconds}s`,
      };
      const began = performance.now();
      await cluster.apply({ apiVersion: 'hearth.storage/v1alpha1', kind: 'CachePreload', metadata, spec });
      await until('it fails', async () => (await cluster.preload(metadata.name))?.status?.phase === 'Failed');
      assertInTime((performance.now() - began) / 1000);
      await running.end('SIGTERM');
    });

    it(`are open at once when their time was over before such an operator came, ${name}`, async () => {
      const pod = `old-${name}`;
      await gated(pod);
      await elapse((timeoutSeconds + 2) * 1000, 'the time of its gate is over');
      const running = await operator(skewMs);
      // Of one that is made now the time begins now.
      await gated(`young-${name}`, 'slow');
      await cluster.released(pod);
      assert.ok(isGated(await cluster.pod(`young-${name}`)));
      await running.end('SIGTERM');
    });
  }
});
