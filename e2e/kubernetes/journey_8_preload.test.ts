import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { truncate, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { hearthImage } from '../cluster/images/hearth_image.ts';
import type { ClusterNode } from '../cluster/node.ts';
import { ok } from '../cluster/testing/ok.ts';
import { root, run, until } from '../src/command.ts';
import { bytesOf, MiB, sha256 } from '../src/sample.ts';
import { type Manifest, releaseNamespace } from './chart.ts';
import { FileOrigin } from './file_origin.ts';
import { clusterName, inline, ofClaim, useJourney } from './journey.ts';

const gateName = 'hearth.storage/preload';
const startupTaint = { key: 'hearth.storage/agent-not-ready', effect: 'NoSchedule' };

describe('bytes before pods', function () {
  this.timeout(300_000);
  const journey = useJourney('preload');
  let origin: FileOrigin;
  let seed = 800;

  before(async () => {
    origin = await FileOrigin.start(journey().cluster.network.hostAddress);
  });
  after(() => origin?.[Symbol.asyncDispose]());
  afterEach(() => {
    origin.bytesPerSecond = undefined;
    origin.failing = false;
  });

  /** A Dataset of one file that no other test knows. */
  function model(
    name: string,
    spec: object = {},
    size = 24 * MiB,
  ): { manifest: Manifest; digest: string; size: number } {
    seed += 1;
    const bytes = bytesOf(seed, size);
    const manifest = journey().dataset(name, { http: { urls: [origin.add(`${name}/weights`, bytes)] } }, spec);
    return { manifest, digest: sha256(bytes), size };
  }
  const wait = (more: object = {}) => ({ gate: { mode: 'Wait', timeout: '5m', ...more } });

  /** A pod that any node may take, and that ends well when it has read the right bytes. */
  function reader(name: string, dataset: string, digest: string, more: { spec?: object; annotations?: object } = {}) {
    const command = `echo "${digest}  /models/weights" | sha256sum -c && sleep 1`;
    const pod = journey().reader(name, inline(dataset), { command });
    const { nodeSelector: _, ...spec } = pod.spec;
    return { ...pod, metadata: { ...pod.metadata, annotations: more.annotations }, spec: { ...spec, ...more.spec } };
  }
  const podOf = async (name: string) => (await journey().get('pod', name)) as Manifest;
  const gatesOf = async (name: string) =>
    ((await podOf(name))?.spec.schedulingGates ?? []).map((gate: { name: string }) => gate.name) as string[];
  const isGated = async (name: string) => (await gatesOf(name)).includes(gateName);
  const released = (name: string, limitMs = 60_000) =>
    until(`pod ${name} is released`, async () => !(await isGated(name)), limitMs);
  const scaleOperator = async (replicas: number) => {
    const inSystem = (...args: string[]) => ok(journey().cluster.kubectl(['-n', releaseNamespace, ...args]));
    await inSystem('scale', 'deployment/hearth-operator', `--replicas=${replicas}`);
    const count = async () =>
      (await inSystem('get', 'pods', '-l', 'app.kubernetes.io/component=operator', '-o', 'name')).trim();
    if (replicas === 0) await until('the operator is away', async () => (await count()) === '', 60_000);
    else await inSystem('rollout', 'status', 'deployment/hearth-operator', '--timeout=90s');
  };

  it('start a pod on the node that was warmed, which then asks the origin for nothing', async () => {
    const { manifest, digest, size } = model('gated', wait());
    await journey().apply(manifest);
    await journey().ready('dataset/gated');
    origin.bytesPerSecond = MiB;
    await journey().apply(reader('first', 'gated', digest));
    assert.ok(await isGated('first'), 'it was made without a gate');
    const plan = (await podOf('first')).metadata.annotations?.['hearth.storage/preload'] as string;
    const explained = await until('a plan with bytes', async () => {
      const hearth = join(root, 'cli/bin/hearth');
      const words = ['explain', 'pod/first', '-n', 'preload', '--kubeconfig', journey().cluster.kubeconfig, '--json'];
      const outcome = await run(hearth, words);
      assert.equal(outcome.code, 0, outcome.stderr);
      const told = JSON.parse(outcome.stdout);
      return told.plan?.bytesTotal === size && told;
    });
    assert.equal(explained.state, 'Gated');
    assert.equal(explained.plan.name, plan);
    await released('first');
    const pod = await podOf('first');
    const warmed = (await journey().get('cachepreload', plan))?.status;
    assert.equal(warmed.nodesReady, warmed.nodesTotal);
    const preferred = pod.spec.affinity.nodeAffinity.preferredDuringSchedulingIgnoredDuringExecution;
    assert.deepEqual(
      preferred.map((one: { weight: number }) => one.weight),
      [100],
    );
    await until('it has a node', async () => (await podOf('first')).spec.nodeName !== undefined);
    const sent = origin.sentBytes;
    assert.match(await journey().finished('first'), /OK/);
    assert.equal(origin.sentBytes, sent, 'bytes were read from the origin after the pod was released');
    const node = (await podOf('first')).spec.nodeName;
    assert.ok(
      warmed.nodes.some((row: { name: string }) => row.name === node),
      `${node} was not warmed`,
    );
    assert.match(await journey().events('first'), new RegExp(node));
    await journey().remove('pod/first');
    await until('the plan goes with the last pod', async () => !(await journey().get('cachepreload', plan)), 60_000);
  });

  it('show their way as a progress bar', async () => {
    const { manifest } = model('slow', {}, 32 * MiB);
    await journey().apply(manifest);
    await journey().ready('dataset/slow');
    origin.bytesPerSecond = MiB;
    const kubectl = join(journey().cluster.programFolders[0] ?? '', 'kubectl');
    const one = ['get', 'cachepreloads', '--field-selector', 'metadata.name=whole', '-w'];
    const watch = spawn(kubectl, [
      ...['--kubeconfig', journey().cluster.kubeconfig, '-n', 'preload', ...one],
      ...['-o', 'jsonpath={.status.percent}{"\\n"}'],
    ]);
    let text = '';
    watch.stdout.on('data', (chunk) => {
      text += chunk;
    });
    try {
      await journey().apply({
        apiVersion: 'hearth.storage/v1alpha1',
        kind: 'CachePreload',
        metadata: { name: 'whole', namespace: 'preload' },
        spec: { datasets: [{ name: 'slow' }], placement: { allNodes: true } },
      });
      await journey().ready('cachepreload/whole', 120);
      const status = (await journey().get('cachepreload', 'whole'))?.status;
      assert.deepEqual([status.phase, status.percent, status.nodesReady], ['Ready', 100, 2]);
      assert.deepEqual([status.bytesReady, status.bytesVerified], [64 * MiB, 64 * MiB]);
      const origins = status.nodes.map((row: { originBytes: number }) => row.originBytes);
      assert.equal(origins[0] + origins[1], 32 * MiB, 'both fetched the same bytes');
      await until('the watch has seen the end', async () => text.trimEnd().endsWith('100'));
      const percents = text.split('\n').filter(Boolean).map(Number);
      assert.ok(new Set(percents).size >= 4, `it was no progress: ${percents}`);
      assert.deepEqual(
        percents,
        [...percents].sort((left, right) => left - right),
        'it went back',
      );
    } finally {
      watch.kill();
    }
    console.log(await journey().must('get', 'cachepreload', 'whole'));
  });

  it('are planned for a Deployment as a whole, spread as it asks', async () => {
    const { manifest, digest } = model('spread', wait());
    await journey().apply(manifest, journey().claim('spread'));
    const labels = { app: 'web' };
    const template = reader('web', 'spread', digest);
    const command = `echo "${digest}  /models/weights" | sha256sum -c && exec sleep 100000`;
    const [container] = template.spec.containers;
    const spread = { maxSkew: 1, topologyKey: 'kubernetes.io/hostname', whenUnsatisfiable: 'DoNotSchedule' };
    await journey().apply({
      apiVersion: 'apps/v1',
      kind: 'Deployment',
      metadata: { name: 'web', namespace: 'preload' },
      spec: {
        replicas: 2,
        selector: { matchLabels: labels },
        template: {
          metadata: { labels },
          spec: {
            ...template.spec,
            restartPolicy: 'Always',
            volumes: [{ name: 'models', ...ofClaim('spread') }],
            containers: [{ ...container, command: ['sh', '-c', command] }],
            topologySpreadConstraints: [{ ...spread, labelSelector: { matchLabels: labels } }],
          },
        },
      },
    });
    await journey().must('rollout', 'status', 'deployment/web', '--timeout=120s');
    const pods = JSON.parse(await journey().must('get', 'pods', '-l', 'app=web', '-o', 'json')).items as Manifest[];
    assert.deepEqual(pods.map(({ spec }) => spec.nodeName).sort(), ['node1', 'node2']);
    const plans = JSON.parse(await journey().must('get', 'cachepreloads', '-o', 'json')).items as Manifest[];
    const plan = plans.find(({ metadata }) => (metadata.name as string).startsWith('web-'));
    const { ownerReferences: [owner] = [] } = (plan?.metadata ?? {}) as { ownerReferences?: { kind: string }[] };
    assert.equal(owner?.kind, 'ReplicaSet');
    assert.deepEqual([plan?.status.nodesReady, plan?.status.percent], [2, 100]);
    await journey().remove('deployment/web');
    const name = plan?.metadata.name as string;
    await until('its plan is away', async () => !(await journey().get('cachepreload', name)), 90_000);
  });

  it('let a pod run cold when its time is over, and say why', async () => {
    const { manifest, digest } = model('late', wait({ timeout: '6s' }));
    await journey().apply(manifest);
    await journey().ready('dataset/late');
    origin.bytesPerSecond = MiB / 4;
    await journey().apply(reader('cold', 'late', digest));
    assert.ok(await isGated('cold'));
    await released('cold', 20_000);
    assert.match(await journey().events('cold'), /GateTimedOut/);
    origin.bytesPerSecond = undefined;
    assert.match(await journey().finished('cold', 120), /OK/);
  });

  it('hold no pod that no node could take: the autoscaler must see it', async () => {
    const { manifest, digest } = model('nowhere', wait());
    await journey().apply(manifest);
    await journey().ready('dataset/nowhere');
    await journey().apply(reader('unplaced', 'nowhere', digest, { spec: { nodeSelector: { gpu: 'none-has-it' } } }));
    await released('unplaced', 10_000);
    await until('the scheduler says why', async () => /FailedScheduling/.test(await journey().events('unplaced')));
    assert.match(await journey().events('unplaced'), /NoFeasibleNode/);
    await journey().remove('pod/unplaced');
  });

  it('are nobody’s concern when pods go, or have no gate', async () => {
    const { manifest, digest } = model('gone', wait());
    await journey().apply(manifest);
    await journey().ready('dataset/gone');
    origin.bytesPerSecond = MiB / 2;
    await journey().apply(
      reader('short', 'gone', digest),
      reader('off', 'gone', digest, { annotations: { 'hearth.storage/gate': 'Off' } }),
    );
    assert.ok(await isGated('short'));
    assert.ok(!(await isGated('off')), 'its annotation says Off');
    const plan = (await podOf('short')).metadata.annotations?.['hearth.storage/preload'] as string;
    await until('a plan', async () => await journey().get('cachepreload', plan));
    await journey().remove('pod/short', 'pod/off');
    await until('its plan is away', async () => !(await journey().get('cachepreload', plan)), 60_000);
  });

  it('do not matter while the operator is away; the next one opens gates at once', async () => {
    const { manifest, digest } = model('away', wait({ timeout: '8s' }));
    await journey().apply(manifest);
    await journey().ready('dataset/away');
    origin.bytesPerSecond = MiB / 8;
    await journey().apply(reader('held', 'away', digest));
    assert.ok(await isGated('held'));
    await scaleOperator(0);
    try {
      origin.bytesPerSecond = undefined;
      await journey().apply(reader('free', 'away', digest));
      assert.ok(!(await isGated('free')), 'a pod was held though nobody could release it');
      assert.match(await journey().finished('free', 120), /OK/);
      await sleep(6_000);
      assert.ok(await isGated('held'), 'nobody was there to release it');
    } finally {
      await scaleOperator(2);
    }
    await released('held', 30_000);
    assert.match(await journey().finished('held', 120), /OK/);
  });

  const preload = (name: string, spec: object): Manifest => ({
    apiVersion: 'hearth.storage/v1alpha1',
    kind: 'CachePreload',
    metadata: { name, namespace: 'preload' },
    spec,
  });
  const onNode = (dataset: string, ...nodeNames: string[]) => ({
    datasets: [{ name: dataset }],
    placement: { nodeNames },
  });
  const statusOf = async (name: string) => (await journey().get('cachepreload', name))?.status;

  it('say what is wrong with what was asked, and do what they can', async () => {
    const { manifest } = model('small', {}, 3 * MiB);
    const folder = journey().sample('huge', { small: 1000 });
    const path = join(folder, 'weights');
    await writeFile(path, '');
    await truncate(path, 2 ** 43);
    await journey().apply(manifest, journey().dataset('huge', { directory: { path: folder } }));
    await journey().ready('dataset/small');
    await journey().ready('dataset/huge');
    await journey().apply(
      preload('nothing', { datasets: [{ name: 'small', paths: ['*.bin'] }], placement: { allNodes: true } }),
      preload('many', { datasets: [{ name: 'small' }], placement: { replicas: 5 } }),
      preload('large', onNode('huge', 'node1')),
      preload('early', onNode('later', 'node1')),
    );
    assert.match(await journey().reason('cachepreload', 'nothing', 'NoFilesMatch'), /\*\.bin/);
    assert.match(await journey().reason('cachepreload', 'many', 'TooFewNodes'), /5.*2/);
    assert.equal((await statusOf('many'))?.nodesReady, 2, 'those that there are have it all the same');
    assert.match(await journey().reason('cachepreload', 'large', 'InsufficientSpace'), /node1/);
    assert.match(await journey().reason('cachepreload', 'early', 'DatasetNotFound'), /later/);
    await journey().apply(model('later', {}, MiB).manifest);
    await journey().ready('cachepreload/early');
    await journey().remove('cachepreload/nothing', 'cachepreload/many', 'cachepreload/large', 'cachepreload/early');
  });

  it('go on where they were when their origin comes back, and end when they are deleted', async () => {
    const { manifest, size } = model('shaky');
    await journey().apply(manifest, model('dropped').manifest);
    await journey().ready('dataset/shaky');
    await journey().ready('dataset/dropped');
    const sent = origin.sentBytes;
    origin.bytesPerSecond = MiB;
    await journey().apply(preload('shaky', onNode('shaky', 'node1')));
    await until('some of it has come', async () => ((await statusOf('shaky'))?.bytesReady ?? 0) > 0);
    origin.failing = true;
    await until('it says why it waits', async () => /503/.test(JSON.stringify(await statusOf('shaky'))));
    origin.failing = false;
    origin.bytesPerSecond = undefined;
    await journey().ready('cachepreload/shaky', 120);
    // What an answer had sent when it was given up is sent again.
    assert.ok(origin.sentBytes - sent < 2 * size, `${origin.sentBytes - sent} bytes for ${size}`);

    // Requests that are under way when it is deleted run to their end, so few may be.
    await journey().apply(preload('dropped', { ...onNode('dropped', 'node1'), rateLimit: { origin: '1Mi' } }));
    await until('it has begun', async () => ((await statusOf('dropped'))?.bytesReady ?? 0) > 0);
    await journey().remove('cachepreload/dropped');
    await until('nothing is sent any more', async () => {
      const before = origin.sentBytes;
      await sleep(2_000);
      return origin.sentBytes === before;
    });
    const rows = (await journey().get('dataset', 'dropped'))?.status.residency ?? [];
    assert.ok(!rows.some(({ percent }: { percent: number }) => percent === 100), 'it was brought all the same');
  });

  describe('with a node that joins', () => {
    let node: ClusterNode;
    let sent: number;
    const joined = { digest: '' };
    const policy = {
      name: 'late',
      nodeSelector: { pool: 'late' },
      datasets: [{ namespace: 'preload', name: 'joined' }],
    };
    const policies = (joinPolicies: object[]) => {
      const patch = JSON.stringify({ spec: { joinPolicies } });
      return journey().must('patch', 'storagecluster', clusterName, '--type=merge', '-p', patch);
    };
    const isComplete = async (name: string, dataset: string) => {
      const rows = ((await journey().get('dataset', dataset))?.status.residency ?? []) as Residency[];
      return rows.some((row) => row.node === name && row.percent === 100);
    };

    before(async function () {
      this.timeout(200_000);
      const { manifest, digest } = model('joined', { lastCopy: 'Move' });
      joined.digest = digest;
      await journey().apply(manifest);
      await journey().ready('dataset/joined');
      await journey().apply(preload('seed', { ...onNode('joined', 'node1'), pin: false }));
      await journey().ready('cachepreload/seed', 90);
      await policies([policy]);
      sent = origin.sentBytes;
      const { archive } = await hearthImage();
      node = await journey().cluster.addNode({ labels: { pool: 'late' }, taints: [startupTaint] }, [archive]);
    });
    after(async function () {
      this.timeout(120_000);
      if (node) await journey().cluster.removeNode();
      await policies([]);
    });

    it('come there before its pods do, from the other nodes', async () => {
      const { cluster } = journey();
      const taints = async () => ((await journey().get('node', node.name))?.spec.taints ?? []) as { key: string }[];
      const isFree = async () => !(await taints()).some(({ key }) => key === startupTaint.key);
      await until('the startup taint goes', isFree, 120_000);
      await until('the Dataset tells of it', () => isComplete(node.name, 'joined'));
      assert.equal(origin.sentBytes, sent, 'the origin was asked, though a node had the bytes');
      const ofNode = ['--field-selector', `involvedObject.name=${node.name}`];
      assert.match(await ok(cluster.kubectl(['get', 'events', '-A', ...ofNode])), /holds preload\.joined/);
    });

    it('are brought to one of three nodes, on which their pod then starts', async () => {
      const { manifest, digest } = model('third', wait());
      await journey().apply(manifest);
      await journey().ready('dataset/third');
      await journey().apply(reader('third', 'third', digest, { spec: { nodeSelector: { pool: 'late' } } }));
      assert.ok(await isGated('third'));
      await released('third');
      const before = origin.sentBytes;
      assert.match(await journey().finished('third'), /OK/);
      assert.equal((await podOf('third')).spec.nodeName, node.name);
      assert.equal(origin.sentBytes, before);
    });

    it('leave it before it goes', async () => {
      const { cluster } = journey();
      const before = origin.sentBytes;
      await journey().remove('cachepreload/seed');
      const [agent] = await journey().partOn('agent', cluster.nodes[0] as ClusterNode);
      const socket = `/var/lib/hearth/${clusterName}/run/agent.sock`;
      const evict = ['hearth', '--socket', socket, 'evict', 'preload.joined', '--node', 'node1'];
      await ok(cluster.kubectl(['-n', releaseNamespace, 'exec', agent?.metadata.name as string, '--', ...evict]));
      await until('node1 has lost its copy', async () => !(await isComplete('node1', 'joined')));
      await ok(cluster.kubectl(['cordon', node.name]));
      await ok(cluster.kubectl(['wait', `nodecache/${node.name}`, '--for=condition=LastCopiesMoved', '--timeout=90s']));
      // The Dataset's figures are written a few seconds later.
      const elsewhere = async () => (await isComplete('node1', 'joined')) || (await isComplete('node2', 'joined'));
      await until('another node has a copy', elsewhere);
      await ok(cluster.kubectl(['uncordon', node.name]));
      const selector = { 'kubernetes.io/hostname': (await isComplete('node1', 'joined')) ? 'node1' : 'node2' };
      await journey().apply(reader('after', 'joined', joined.digest, { spec: { nodeSelector: selector } }));
      assert.match(await journey().finished('after', 120), /OK/);
      assert.equal(origin.sentBytes, before, 'the last copy was not taken from the node that had it');
    });

    it('go to another node when the one that is warmed dies', async () => {
      const { manifest } = model('lost');
      await journey().apply(manifest);
      await journey().ready('dataset/lost');
      // Whoever has some of the bytes is chosen.
      origin.bytesPerSecond = MiB / 2;
      await journey().apply(preload('begun', onNode('lost', node.name)));
      await until('the node has some of it', async () => ((await statusOf('begun'))?.bytesReady ?? 0) > 0);
      await journey().apply(preload('lost', { datasets: [{ name: 'lost' }], placement: { replicas: 1 } }));
      const chosen = async () => (await statusOf('lost'))?.nodes?.map(({ name }: { name: string }) => name) ?? [];
      await until('it is chosen', async () => (await chosen()).includes(node.name));
      await node.cutPower();
      origin.bytesPerSecond = undefined;
      await journey().ready('cachepreload/lost', 120);
      const ready = (await statusOf('lost')).nodes.filter(({ phase }: { phase: string }) => phase === 'Ready');
      assert.ok(ready.length === 1 && ready[0].name !== node.name, JSON.stringify(ready));
      await journey().remove('cachepreload/lost', 'cachepreload/begun');
    });
  });
});

interface Residency {
  node: string;
  percent: number;
}
