import assert from 'node:assert/strict';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { createServer, type Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { HearthError } from '@hearth/common';
import { type KubernetesClient, type KubernetesObject, kinds } from '@hearth/common/kubernetes';
import { jsonLines, runCommand } from '../testing/fake_terminal.ts';
import { explain } from './explanation.ts';
import { podFacts } from './facts.ts';

const now = Date.parse('2026-01-01T00:01:00Z');
const created = '2026-01-01T00:00:00Z';
const signal = new AbortController().signal;
const gib = 1024 ** 3;

/** A team's pod waits for a model that one of two nodes holds half. */
const objects: Record<string, object> = {
  'Pod team/web': {
    metadata: {
      namespace: 'team',
      name: 'web',
      uid: 'u1',
      creationTimestamp: created,
      annotations: { 'hearth.storage/preload': 'web-1' },
    },
    spec: {
      schedulingGates: [{ name: 'hearth.storage/preload' }],
      volumes: [{ name: 'model', persistentVolumeClaim: { claimName: 'models' } }],
    },
    status: { phase: 'Pending' },
  },
  'PersistentVolumeClaim team/models': {
    metadata: { namespace: 'team', name: 'models' },
    spec: { dataSourceRef: { apiGroup: 'hearth.storage', kind: 'Dataset', name: 'llama' } },
  },
  'Dataset team/llama': {
    metadata: { namespace: 'team', name: 'llama' },
    spec: { gate: { mode: 'Wait', minPercent: 100, timeout: '10m', affinity: 'Preferred', readyWhen: 'Stored' } },
    status: {
      bytes: 8 * gib,
      files: 3,
      revision: 'abc',
      conditions: [{ type: 'Ready', status: 'True', reason: 'Ready', message: '' }],
      residency: [
        { node: 'n1', residentBytes: 4 * gib, percent: 50 },
        { node: 'n2', residentBytes: 8 * gib, percent: 100 },
      ],
    },
  },
  'CachePreload team/web-1': {
    metadata: { namespace: 'team', name: 'web-1' },
    spec: { placement: { gatedPods: { gate: { timeout: '10m' } } } },
    status: {
      phase: 'Warming',
      percent: 50,
      bytesReady: 4 * gib,
      bytesTotal: 8 * gib,
      bytesPerSecond: 100 * 2 ** 20,
      secondsLeft: 41,
      waitingFor: '4.0 GiB on n1',
      nodes: [{ name: 'n1', message: 'fetching from n2' }],
      pods: { waiting: 1, released: 0, reason: 'n1 holds most of what fits' },
    },
  },
};

type Forbidden = readonly string[];
const client = (known: Record<string, object>, forbidden: Forbidden = []) => {
  const answer = (kind: string, key: string) => {
    if (forbidden.includes(kind)) throw new HearthError('PermissionDenied', `${kind} is forbidden`);
    return known[`${kind} ${key}`];
  };
  return {
    get: async (type: { kind: string }, name: string, namespace?: string) =>
      answer(type.kind, namespace === undefined ? name : `${namespace}/${name}`),
    list: async (type: { kind: string }) => {
      answer(type.kind, '');
      const event = { reason: 'Gated', message: 'waits', lastTimestamp: '2026-01-01T00:00:01Z' };
      return { items: [event as KubernetesObject], resourceVersion: '1' };
    },
  } as unknown as Pick<KubernetesClient, 'get' | 'list'>;
};
const explained = async (known = objects, forbidden: Forbidden = []) =>
  explain(await podFacts(client(known, forbidden), 'team', 'web', signal), now);
const changed = (key: string, change: (object: never) => void) => {
  const copy = structuredClone(objects);
  change(copy[key] as never);
  return copy;
};

describe('explanation of a pod', () => {
  it('reports the awaited event of a gated pod, its end, and the location of bytes', async () => {
    const it = await explained();
    assert.equal(it.state, 'Gated');
    assert.equal(it.waitsFor, '4.0 GiB on n1');
    assert.deepEqual([it.ageSeconds, it.startsInSeconds, it.opensInSeconds], [60, 41, 540]);
    assert.deepEqual(
      it.nodes.map(({ node, role, percent, missingBytes, dataPath }) => [node, role, percent, missingBytes, dataPath]),
      [
        ['n1', 'planned', 50, 4 * gib, 'fuse'],
        ['n2', '', 100, 0, 'view'],
      ],
    );
    assert.equal(it.plan?.reason, 'n1 holds most of what fits');
    assert.deepEqual(it.events, [{ reason: 'Gated', message: 'waits', ageSeconds: 59 }]);
    assert.deepEqual(it.unseen, []);
  });

  it('handles a node that no StorageCluster selects', async () => {
    const stranded = changed('Pod team/web', (pod: { metadata: object; spec: object }) => {
      pod.metadata = { ...pod.metadata, annotations: {} };
      pod.spec = { ...pod.spec, schedulingGates: [], nodeName: 'n9' };
    });
    const it = await explained(stranded);
    assert.equal(it.waitsFor, 'an agent on n9: no StorageCluster selects that node');
    const [own] = it.nodes;
    assert.deepEqual([own?.node, own?.dataPath], ['n9', 'none']);
    assert.match(own?.message ?? '', /^no StorageCluster selects this node/);
    assert.match(it.advice.join(), /label that the node lacks: kubectl describe pod -n team web/);
    const served = { ...stranded, 'NodeCache n9': { metadata: { name: 'n9' } } };
    assert.equal((await explained(served)).nodes[0]?.dataPath, 'fuse');
    const hidden = await explained(stranded, ['NodeCache']);
    assert.equal(hidden.nodes[0]?.dataPath, 'fuse', 'it is not known');
    assert.match(hidden.waitsFor, /the kubelet of n9/);
  });

  it('reports bytes in memory before they are stored, both times, and the data path until then', async () => {
    const early = changed('CachePreload team/web-1', (preload: { spec: object; status: { nodes: object[] } }) => {
      Object.assign(preload.spec, { placement: { gatedPods: { gate: { timeout: '10m', readyWhen: 'Memory' } } } });
      const memory = { bytesInMemory: 8 * gib, inMemoryAt: '2026-01-01T00:00:03Z', secondsToMemory: 3.2 };
      Object.assign(preload.status, { bytesInMemory: 8 * gib, nodes: [{ name: 'n1', message: '', ...memory }] });
    });
    const it = await explained(early);
    assert.deepEqual([it.plan?.readyWhen, it.plan?.bytesInMemory, it.startsInSeconds], ['Memory', 8 * gib, undefined]);
    const [planned, other] = it.nodes;
    assert.deepEqual(
      [planned?.bytesInMemory, planned?.secondsToMemory, planned?.storedAt, planned?.dataPath, planned?.missingBytes],
      [8 * gib, 3.2, undefined, 'fuse', 4 * gib],
    );
    assert.equal(planned?.message, 'every byte is in memory: reads go through FUSE until all is stored');
    assert.equal(other?.bytesInMemory, undefined, 'it is in no plan');
    assert.deepEqual(
      [(await explained()).plan?.readyWhen, (await explained()).plan?.bytesInMemory],
      ['Stored', 4 * gib],
    );
  });

  it('names a missing claim, Dataset or plan', async () => {
    const without = (key: string) => {
      const { [key]: _, ...rest } = objects;
      return rest;
    };
    assert.match((await explained(without('PersistentVolumeClaim team/models'))).waitsFor, /no claim models yet/);
    const missing = await explained(without('Dataset team/llama'));
    assert.match(missing.waitsFor, /Dataset team\/llama, which does not exist/);
    assert.deepEqual([missing.datasets[0]?.ready, missing.nodes], [false, []]);
    assert.match((await explained(without('CachePreload team/web-1'))).waitsFor, /a plan/);
  });

  it('recognizes pods that others hold back, that fit nowhere, or that run cold', async () => {
    const gates = changed('Pod team/web', (pod: { spec: { schedulingGates: object[] } }) => {
      pod.spec.schedulingGates = [{ name: 'theirs/gate' }];
    });
    assert.match((await explained(gates)).waitsFor, /gates of others: theirs\/gate/);
    const unscheduled = changed('Pod team/web', (pod: { spec: object; status: object }) => {
      Object.assign(pod.spec, { schedulingGates: [] });
      Object.assign(pod.status, { conditions: [{ type: 'PodScheduled', status: 'False', message: '0/3 nodes' }] });
    });
    assert.deepEqual(
      [(await explained(unscheduled)).state, (await explained(unscheduled)).waitsFor],
      ['Unscheduled', '0/3 nodes'],
    );
    const cold = changed('Pod team/web', (pod: { spec: object; status: object }) => {
      Object.assign(pod.spec, { schedulingGates: [], nodeName: 'n3' });
      Object.assign(pod.status, { phase: 'Running' });
    });
    const running = await explained(cold);
    assert.equal(running.waitsFor, '');
    assert.deepEqual(
      running.nodes.map(({ node, role, percent }) => [node, role, percent]),
      [
        ['n3', 'pod', 0],
        ['n1', 'planned', 50],
        ['n2', '', 100],
      ],
    );
  });

  it('reports unreadable objects, and everything else', async () => {
    const it = await explained(objects, ['CachePreload', 'Event']);
    assert.equal(it.plan, undefined);
    assert.deepEqual(it.unseen, [
      'you may not read cachepreloads, so facts that depend on them are unknown',
      'you may not read events, so facts that depend on them are unknown',
    ]);
    await assert.rejects(explained({}), { code: 'NotFound' });
    await assert.rejects(explained(objects, ['Pod']), { code: 'PermissionDenied' });
  });

  it('recognizes a pod without Datasets', async () => {
    const plain = changed('Pod team/web', (pod: { spec: { volumes: object[] } }) => {
      pod.spec.volumes = [{ name: 'scratch', emptyDir: {} }];
    });
    assert.match((await explained(plain)).advice.join(), /no volume of a Dataset/);
  });
});

describe('hearth explain', () => {
  let server: Server;
  let folder: string;
  const kubeconfig = () => join(folder, 'config');
  const hearth = (...words: string[]) => runCommand(['explain', 'pod/web', '--kubeconfig', kubeconfig(), ...words]);

  before(async () => {
    server = createServer((request, response) => {
      const { pathname } = new URL(request.url ?? '/', 'http://server');
      const [, namespace = '', plural = '', name = ''] =
        /namespaces\/([^/]+)\/([^/]+)(?:\/([^/]+))?$/.exec(pathname) ?? [];
      const kind = Object.values(kinds).find((type) => type.plural === plural)?.kind ?? '';
      const found =
        name === '' ? { items: [], metadata: { resourceVersion: '1' } } : objects[`${kind} ${namespace}/${name}`];
      response.writeHead(found === undefined ? 404 : 200, { 'content-type': 'application/json' });
      response.end(JSON.stringify(found ?? { kind: 'Status', code: 404, reason: 'NotFound', details: { name } }));
    });
    await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
    folder = mkdtempSync(join(tmpdir(), 'hearth-explain-'));
    const address = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
    const config = {
      'current-context': 'here',
      clusters: [{ name: 'c', cluster: { server: address, 'insecure-skip-tls-verify': true } }],
      users: [{ name: 'u', user: {} }],
      contexts: [{ name: 'here', context: { cluster: 'c', user: 'u', namespace: 'team' } }],
    };
    writeFileSync(kubeconfig(), JSON.stringify(config));
  });
  after(async () => {
    await new Promise((resolve) => server.close(resolve));
    rmSync(folder, { recursive: true });
  });

  it('prints text and JSON, in the namespace of the kubeconfig', async () => {
    const { code, out, err } = await hearth();
    assert.equal(code, 0, err);
    assert.match(out, /^Pod team\/web: held back until its bytes are there, /);
    assert.match(out, /^Waits for 4\.0 GiB on n1$/m);
    assert.match(out, /^Should start in about 41 s; its gate opens in 0 s at the latest$/m);
    assert.match(out, /^team\/llama +model +ready +8\.0 GiB +Wait +abc/m);
    assert.match(out, /^n1 +planned +\S+ +50% +4\.0 GiB +fuse +fetching from n2/m);
    assert.match(out, /^Plan web-1: Warming \S+ 50%, 100\.0 MiB\/s$/m);
    const [value] = jsonLines((await hearth('--json')).out);
    assert.deepEqual([value?.state, value?.startsInSeconds], ['Gated', 41]);
  });

  it('prints bytes in memory, missing bytes and both durations', async () => {
    const plan = objects['CachePreload team/web-1'] as { spec: object; status: { nodes: object[] } };
    const dataset = objects['Dataset team/llama'] as { status: { residency: object[] } };
    const before = structuredClone({ plan, dataset });
    const row = { name: 'n1', message: '', bytesInMemory: 6 * gib };
    const arrived = { ...row, bytesInMemory: 8 * gib, inMemoryAt: created, secondsToMemory: 3.2 };
    const lines = async (node: object) => {
      Object.assign(plan.status, { bytesInMemory: 6 * gib, nodes: [node] });
      return (await hearth()).out;
    };
    Object.assign(plan.spec, { placement: { gatedPods: { gate: { timeout: '10m', readyWhen: 'Memory' } } } });
    const coming = await lines(row);
    assert.match(
      coming,
      /^ {2}4\.0 GiB of 8\.0 GiB on its nodes, 6\.0 GiB including memory; its pods start when all are/m,
    );
    assert.match(coming, /^ {2}n1: 6\.0 GiB in memory, 2\.0 GiB missing$/m);
    assert.match(await lines(arrived), /^ {2}n1: in memory after 3\.2 s, 4\.0 GiB not stored yet$/m);
    dataset.status.residency = [{ node: 'n1', residentBytes: 8 * gib, percent: 100 }];
    const stored = await lines({ ...arrived, storedAt: created, secondsToStored: 7.9 });
    assert.match(stored, /^ {2}n1: in memory after 3\.2 s, stored after 7\.9 s$/m);
    Object.assign(plan, before.plan);
    Object.assign(dataset, before.dataset);
  });

  it('says how much a pod would read from memory', async () => {
    const dataset = objects['Dataset team/llama'] as { status: { residency: object[] } };
    const before = structuredClone(dataset);
    dataset.status.residency = [{ node: 'n2', residentBytes: 8 * gib, memoryBytes: 6 * gib, percent: 100 }];
    const { out } = await hearth();
    assert.match(out, /^n2 .* fuse .*6\.0 GiB are read from the node's memory, the rest from its disks$/m);
    Object.assign(dataset, before);
  });

  it('refuses other kinds, a missing kubeconfig and a missing pod', async () => {
    const other = await runCommand(['explain', 'service/web']);
    assert.equal(other.code, 2);
    assert.match(other.err, /^hearth: "service\/web" is not one of pod\/NAME, deployment\/NAME, /);
    const missing = await runCommand(['explain', 'pod/web', '--kubeconfig', '/nowhere/config']);
    assert.equal(missing.code, 2);
    assert.match(missing.err, /cannot read the kubeconfig: .*ENOENT.*; give --kubeconfig/);
    const context = await hearth('--context', 'there');
    assert.match(context.err, /no context there; give --context/);
    const pod = await hearth('-n', 'theirs');
    assert.match(pod.err, /there is no pod theirs\/web; give its namespace with -n/);
  });
});
