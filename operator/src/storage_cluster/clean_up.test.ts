import assert from 'node:assert/strict';
import type { KubernetesObject, ResourceType } from '@hearth/common/kubernetes';
import { cleanUp } from './clean_up.ts';
import { labelsOf } from './names.ts';
import { sampleCluster } from './testing/samples.ts';

const signal = new AbortController().signal;
const deletionTimestamp = '2026-01-01T00:00:00Z';
const began = Date.parse(deletionTimestamp);

describe('deletion of a StorageCluster', () => {
  function setUp(objects: Record<string, string[]>, nodeCaches: string[] = []) {
    const deleted: string[] = [];
    const events: string[] = [];
    const clock = { now: began + 1_000 };
    const component = (name: string) => ['etcd', 'holder'].find((one) => name.includes(one)) ?? 'agent';
    const items = (type: ResourceType, selector: string): KubernetesObject[] => {
      if (type.kind === 'NodeCache') {
        return nodeCaches.map(
          (name) => ({ metadata: { name }, spec: { clusterRef: { name: 'models' } } }) as KubernetesObject,
        );
      }
      const [, wanted] = /component=(\w+)$/.exec(selector) ?? [];
      const found = (objects[type.kind] ?? []).filter((name) => wanted === undefined || wanted === component(name));
      return found.map((name) => ({ metadata: { name, labels: labelsOf('models', 'agent') } }));
    };
    const options = {
      api: {
        list: async (type: ResourceType, place?: { labelSelector?: string | undefined }) => ({
          items: items(type, place?.labelSelector ?? ''),
          resourceVersion: '1',
        }),
        delete: async (type: ResourceType, name: string) => {
          deleted.push(`${type.kind} ${name}`);
          return true;
        },
      },
      events: {
        eventFor: (_type: unknown, _object: unknown, _kind: string, reason: string) => void events.push(reason),
      },
      namespace: 'hearth-system',
      now: () => clock.now,
      timeoutMs: 600_000,
    };
    const run = () => cleanUp(options as never, sampleCluster({}, { deletionTimestamp }), signal);
    return { run, deleted, events, clock, objects };
  }

  it('removes agents and NodeCaches first, and waits for their pods by name', async () => {
    const { run, deleted } = setUp({ DaemonSet: ['agents'], Pod: ['agent-1'], Secret: ['ca'] }, ['n1']);
    assert.deepEqual(await run(), {
      waitingFor: 'Waits for these to go: DaemonSet agents, Pod agent-1',
      requeueAfterMs: 1_000,
    });
    assert.deepEqual(deleted, ['DaemonSet agents', 'NodeCache n1']);
  });

  it('removes holders when agents have gone: what these have left mounted goes with them', async () => {
    const { run, deleted, objects } = setUp({ DaemonSet: ['agents', 'holders'], Pod: ['agent-1', 'holder-1'] });
    await run();
    objects.DaemonSet = ['holders'];
    await run();
    assert.deepEqual(deleted, ['DaemonSet agents']);
    objects.Pod = ['holder-1'];
    assert.deepEqual(await run(), {
      waitingFor: 'Waits for these to go: DaemonSet holders, Pod holder-1',
      requeueAfterMs: 1_000,
    });
    assert.deepEqual(deleted, ['DaemonSet agents', 'DaemonSet holders']);
  });

  it('removes the store and certificates when agents have gone, and is done when nothing is left', async () => {
    const { run, deleted, objects } = setUp({ StatefulSet: ['etcd'], Secret: ['ca'], Pod: ['etcd-0'] });
    assert.deepEqual(await run(), {
      waitingFor: 'Waits for these to go: StatefulSet etcd, Secret ca, Pod etcd-0',
      requeueAfterMs: 1_000,
    });
    assert.deepEqual(deleted, ['StatefulSet etcd', 'Secret ca']);
    for (const kind of Object.keys(objects)) objects[kind] = [];
    assert.equal(await run(), 'done');
  });

  it('ends when the timeout is over, with everything deleted that can be and an event', async () => {
    const { run, deleted, events, clock } = setUp({ Pod: ['agent-stuck'], Secret: ['ca'] });
    clock.now = began + 600_001;
    assert.equal(await run(), 'done');
    assert.deepEqual(deleted, ['Secret ca']);
    assert.deepEqual(events, ['DeletionIncomplete']);
  });
});
