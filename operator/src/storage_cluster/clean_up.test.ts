import assert from 'node:assert/strict';
import type { KubernetesObject, ResourceType } from '@hearth/common/kubernetes';
import { claimedVolume, MountingPods, podMounts } from '../kubernetes/index.ts';
import { cleanUp, keptByPods } from './clean_up.ts';
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
      began: new Map<string, number>(),
    };
    const run = () => cleanUp(options as never, sampleCluster({}, { deletionTimestamp }), signal);
    return { run, deleted, events, clock, objects };
  }

  it('removes agents and NodeCaches first, and waits for their pods by name', async () => {
    const { run, deleted } = setUp({ DaemonSet: ['agents'], Pod: ['agent-1'], Secret: ['ca'] }, ['n1']);
    assert.deepEqual(await run(), {
      waitingFor: 'Waits until these objects are gone: DaemonSet agents, Pod agent-1',
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
      waitingFor: 'Waits until these objects are gone: DaemonSet holders, Pod holder-1',
      requeueAfterMs: 1_000,
    });
    assert.deepEqual(deleted, ['DaemonSet agents', 'DaemonSet holders']);
  });

  it('removes the store and certificates when agents have gone, and is done when nothing is left', async () => {
    const { run, deleted, objects } = setUp({ StatefulSet: ['etcd'], Secret: ['ca'], Pod: ['etcd-0'] });
    assert.deepEqual(await run(), {
      waitingFor: 'Waits until these objects are gone: StatefulSet etcd, Secret ca, Pod etcd-0',
      requeueAfterMs: 1_000,
    });
    assert.deepEqual(deleted, ['StatefulSet etcd', 'Secret ca']);
    for (const kind of Object.keys(objects)) objects[kind] = [];
    assert.equal(await run(), 'done');
  });

  it('ends when the timeout is over, with everything deleted that can be and an event', async () => {
    const { run, deleted, events, clock } = setUp({ Pod: ['agent-stuck'], Secret: ['ca'] });
    // However long it waited for pods before.
    clock.now = began + 3_600_000;
    await run();
    assert.deepEqual(deleted, []);
    clock.now += 600_001;
    assert.equal(await run(), 'done');
    assert.deepEqual(deleted, ['Secret ca']);
    assert.deepEqual(events, ['DeletionIncomplete']);
  });
});

describe('a StorageCluster whose volumes pods mount', () => {
  const driver = 'csi.hearth.storage';
  const inline = (volumeAttributes: object) => ({ name: 'data', csi: { driver, volumeAttributes } });
  const pod = (name: string, node: string, volume: object, phase = 'Running') => ({
    metadata: { namespace: 'team', name },
    spec: { nodeName: node, containers: [], volumes: [volume] },
    status: { phase },
  });
  const volumeOf = (name: string, volumeAttributes: object) => ({
    spec: { csi: { driver, volumeAttributes }, claimRef: { namespace: 'team', name } },
  });
  const ofClaim = (claimName: string) => ({ name: 'data', persistentVolumeClaim: { claimName } });
  const holder = { cluster: 'models', node: 'n1' };

  function kept(
    pods: ReturnType<typeof pod>[],
    options: { annotations?: Record<string, string>; own?: object[] } = {},
  ) {
    const { annotations = {}, own = [holder] } = options;
    const volumes = [volumeOf('ours', { cluster: 'models' }), volumeOf('others', { cluster: 'other' })];
    const mounting = new MountingPods();
    for (const [index, volume] of volumes.entries()) {
      mounting.volumeChanged(`pv-${index}`, undefined, claimedVolume(volume as never));
    }
    for (const one of pods) mounting.podChanged(`team/${one.metadata.name}`, undefined, podMounts(one as never));
    const cluster = sampleCluster({}, { deletionTimestamp, annotations });
    return keptByPods({ all: () => own as never }, mounting, cluster);
  }

  it('waits for them by name, and says how to go on', () => {
    const waits = kept([
      pod('inline', 'n1', inline({ dataset: 'a' })),
      pod('named', 'n1', inline({ dataset: 'a', cluster: 'models' })),
      pod('claimed', 'n1', ofClaim('ours')),
      pod('starting', 'n1', ofClaim('ours'), 'Pending'),
    ]);
    assert.ok(waits !== undefined && waits !== 'done');
    assert.equal(waits.reason, 'InUse');
    assert.match(
      waits.waitingFor,
      /: team\/claimed on n1, team\/inline on n1, team\/named on n1, team\/starting on n1; delete these pods/,
    );
    assert.match(waits.waitingFor, /kubectl annotate storagecluster models hearth\.storage\/force-deletion=true$/);
  });

  it('does not wait for pods that lose nothing', () => {
    const others = [
      pod('elsewhere', 'n2', inline({ dataset: 'a' })),
      pod('other-cluster', 'n1', inline({ dataset: 'a', cluster: 'other' })),
      pod('other-claim', 'n1', ofClaim('others')),
      pod('foreign-claim', 'n1', ofClaim('disk')),
      pod('ended', 'n1', inline({ dataset: 'a' }), 'Succeeded'),
      pod('unscheduled', '', ofClaim('ours'), 'Pending'),
    ];
    assert.equal(kept(others), undefined);
    assert.equal(kept([pod('inline', 'n1', inline({ dataset: 'a' }))], { own: [] }), undefined);
  });

  it('goes when it is annotated', () => {
    const annotations = { 'hearth.storage/force-deletion': 'true' };
    assert.equal(kept([pod('inline', 'n1', inline({ dataset: 'a' }))], { annotations }), undefined);
    assert.ok(kept([pod('inline', 'n1', inline({ dataset: 'a' }))], { annotations: { other: 'true' } }));
  });
});
