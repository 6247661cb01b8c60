import assert from 'node:assert/strict';
import { truncate, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { DaemonProcess, elapse, MiB, ok, steady, until } from '@hearth/common/testing';
import { type Manifest, releaseNamespace } from '@hearth/common/testing/kubernetes';
import { ofClaim } from './journey.ts';
import { onNode, usePreloadJourney, waiting } from './preload_journey.ts';

describe('bytes before pods', () => {
  const preloads = usePreloadJourney('preload');
  const journey = () => preloads().journey;
  const scaleOperator = async (replicas: number) => {
    const inSystem = (...args: string[]) => ok(journey().cluster.kubectl(['-n', releaseNamespace, ...args]));
    await inSystem('scale', 'deployment/hearth-operator', `--replicas=${replicas}`);
    const count = async () =>
      (await inSystem('get', 'pods', '-l', 'app.kubernetes.io/component=operator', '-o', 'name')).trim();
    if (replicas === 0) await until('the operator is away', async () => (await count()) === '');
    else await inSystem('rollout', 'status', 'deployment/hearth-operator', '--timeout=300s');
  };

  it('start a pod on the node that was warmed, which then asks the origin for nothing', async () => {
    const { manifest, digest, size } = preloads().model('gated', waiting(), 10 * MiB);
    await journey().apply(manifest);
    await journey().ready('dataset/gated');
    // Slow until it has been looked at.
    preloads().origin.bytesPerSecond = MiB / 8;
    await journey().apply(preloads().reader('first', 'gated', digest));
    assert.ok(await preloads().isGated('first'), 'it was made without a gate');
    const plan = await preloads().planOf('first');
    const explained = await until('a plan with bytes', async () => {
      const outcome = await preloads().explain('first', '--json');
      assert.equal(outcome.code, 0, outcome.stderr);
      const told = JSON.parse(outcome.stdout);
      return told.plan?.bytesTotal === size && told;
    });
    assert.equal(explained.state, 'Gated');
    const words = (await preloads().explain('first')).stdout;
    assert.match(words, /: held back until its bytes are there.*\nWaits for .*\n.*gate opens in/);
    assert.match(words, new RegExp(`^Plan ${plan}: `, 'm'));
    assert.equal(explained.plan.name, plan);
    preloads().origin.bytesPerSecond = undefined;
    await preloads().released('first');
    const pod = await preloads().pod('first');
    // Gates open by what is known, which is written a moment later.
    const warmed = await until('all of its nodes are reported ready', async () => {
      const status = await preloads().statusOf(plan);
      return status?.nodesTotal > 0 && status.nodesReady === status.nodesTotal && status;
    });
    const preferred = pod.spec.affinity.nodeAffinity.preferredDuringSchedulingIgnoredDuringExecution;
    assert.deepEqual(
      preferred.map((one: { weight: number }) => one.weight),
      [100],
    );
    await until('it has a node', async () => (await preloads().pod('first')).spec.nodeName !== undefined);
    const sent = preloads().origin.sentBytes;
    assert.match(await journey().finished('first'), /OK/);
    assert.equal(preloads().origin.sentBytes, sent, 'bytes were read from the origin after the pod was released');
    const node = (await preloads().pod('first')).spec.nodeName;
    assert.ok(
      warmed.nodes.some((row: { name: string }) => row.name === node),
      `${node} was not warmed`,
    );
    await journey().event('first', new RegExp(node));
    await journey().remove('pod/first');
    await preloads().gone(plan);
  });

  it('show their way as a progress bar', async () => {
    const { manifest, size } = preloads().model('slow', {}, 24 * MiB);
    await journey().apply(manifest);
    await journey().ready('dataset/slow');
    preloads().origin.bytesPerSecond = MiB / 2;
    const kubectl = join(journey().cluster.programFolders[0] ?? '', 'kubectl');
    const one = ['get', 'cachepreloads', '--field-selector', 'metadata.name=whole', '-w'];
    const watch = new DaemonProcess(kubectl, [
      ...['--kubeconfig', journey().cluster.kubeconfig, '-n', 'preload', ...one],
      ...['-o', 'jsonpath={.status.percent}{"\\n"}'],
    ]);
    try {
      await journey().apply({
        apiVersion: 'hearth.storage/v1alpha1',
        kind: 'CachePreload',
        metadata: { name: 'whole', namespace: 'preload' },
        spec: { datasets: [{ name: 'slow' }], placement: { allNodes: true } },
      });
      await journey().ready('cachepreload/whole');
      const status = (await journey().get('cachepreload', 'whole'))?.status;
      assert.deepEqual([status.phase, status.percent, status.nodesReady], ['Ready', 100, 2]);
      assert.deepEqual([status.bytesReady, status.bytesVerified], [2 * size, 2 * size]);
      const origins = status.nodes.map((row: { originBytes: number }) => row.originBytes);
      assert.equal(origins[0] + origins[1], size, 'both fetched the same bytes');
      await until('the watch has seen the end', () => watch.said.stdout.trimEnd().endsWith('100'));
      const percents = watch.said.stdout.split('\n').filter(Boolean).map(Number);
      // How many steps there are depends on how busy the machine is.
      assert.ok(
        percents.some((one) => one > 0 && one < 100),
        `it was no progress: ${percents}`,
      );
      assert.deepEqual(
        percents,
        [...percents].sort((left, right) => left - right),
        'it went back',
      );
    } finally {
      await watch.end();
    }
    console.log(await journey().must('get', 'cachepreload', 'whole'));
  });

  it('are planned for a Deployment as a whole, spread as it asks', async () => {
    const { manifest, digest } = preloads().model('spread', waiting());
    await journey().apply(manifest, journey().claim('spread'));
    const labels = { app: 'web' };
    const template = preloads().reader('web', 'spread', digest);
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
    await journey().must('rollout', 'status', 'deployment/web', '--timeout=300s');
    const pods = JSON.parse(await journey().must('get', 'pods', '-l', 'app=web', '-o', 'json')).items as Manifest[];
    assert.deepEqual(pods.map(({ spec }) => spec.nodeName).sort(), ['node1', 'node2']);
    const plan = await until('its plan is reported done', async () => {
      const plans = JSON.parse(await journey().must('get', 'cachepreloads', '-o', 'json')).items as Manifest[];
      const found = plans.find(({ metadata }) => (metadata.name as string).startsWith('web-'));
      return found?.status?.nodesReady === 2 && found.status.percent === 100 && found;
    });
    const { ownerReferences: [owner] = [] } = plan.metadata as { ownerReferences?: { kind: string }[] };
    assert.equal(owner?.kind, 'ReplicaSet');
    await journey().remove('deployment/web');
    const name = plan.metadata.name as string;
    await preloads().gone(name);
  });

  it('let a pod run cold when its time is over, and say why', async () => {
    const { manifest, digest } = preloads().model('late', waiting({ timeout: '30s' }));
    await journey().apply(manifest);
    await journey().ready('dataset/late');
    // Its first piece takes longer than the gate waits.
    preloads().origin.bytesPerSecond = MiB / 8;
    await journey().apply(preloads().reader('cold', 'late', digest));
    assert.ok(await preloads().isGated('cold'));
    await preloads().released('cold');
    await journey().event('cold', /GateTimedOut/);
    preloads().origin.bytesPerSecond = undefined;
    assert.match(await journey().finished('cold'), /OK/);
  });

  it('hold no pod that no node could take: the autoscaler must see it', async () => {
    const { manifest, digest } = preloads().model('nowhere', waiting());
    await journey().apply(manifest);
    await journey().ready('dataset/nowhere');
    await journey().apply(
      preloads().reader('unplaced', 'nowhere', digest, { spec: { nodeSelector: { gpu: 'none-has-it' } } }),
    );
    await preloads().released('unplaced');
    for (const reason of [/FailedScheduling/, /NoFeasibleNode/]) await journey().event('unplaced', reason);
    await journey().remove('pod/unplaced');
  });

  it('are left alone when pods go, or have no gate', async () => {
    const { manifest, digest } = preloads().model('gone', waiting());
    await journey().apply(manifest);
    await journey().ready('dataset/gone');
    preloads().origin.bytesPerSecond = MiB / 2;
    await journey().apply(
      preloads().reader('short', 'gone', digest),
      preloads().reader('off', 'gone', digest, { annotations: { 'hearth.storage/gate': 'Off' } }),
    );
    assert.ok(await preloads().isGated('short'));
    assert.ok(!(await preloads().isGated('off')), 'its annotation says Off');
    const plan = await preloads().planOf('short');
    await until('a plan', async () => await journey().get('cachepreload', plan));
    await journey().remove('pod/short', 'pod/off');
    await preloads().gone(plan);
  });

  it('do not matter while the operator is away; the next one opens gates at once', async () => {
    const { manifest, digest } = preloads().model('away', waiting({ timeout: '60s' }));
    await journey().apply(manifest);
    await journey().ready('dataset/away');
    preloads().origin.bytesPerSecond = MiB / 8;
    await journey().apply(preloads().reader('held', 'away', digest));
    assert.ok(await preloads().isGated('held'));
    await scaleOperator(0);
    try {
      preloads().origin.bytesPerSecond = undefined;
      await journey().apply(preloads().reader('free', 'away', digest));
      assert.ok(!(await preloads().isGated('free')), 'a pod was held though nobody could release it');
      assert.match(await journey().finished('free'), /OK/);
      const { creationTimestamp = '' } = (await preloads().pod('held')).metadata as { creationTimestamp?: string };
      const over = Date.parse(creationTimestamp) + 61_000;
      await elapse(Math.max(0, over - Date.now()), 'the time of its gate is over');
      assert.ok(await preloads().isGated('held'), 'no operator was there to release it');
    } finally {
      await scaleOperator(2);
    }
    await preloads().released('held');
    assert.match(await journey().finished('held'), /OK/);
  });

  it('say what is wrong with what was asked, and do what they can', async () => {
    const { manifest } = preloads().model('small', {}, 3 * MiB);
    const folder = journey().sample('huge', { small: 1000 });
    const path = join(folder, 'weights');
    await writeFile(path, '');
    await truncate(path, 2 ** 43);
    await journey().apply(manifest, journey().dataset('huge', { directory: { path: folder } }));
    await journey().ready('dataset/small');
    await journey().ready('dataset/huge');
    await journey().apply(
      preloads().preload('nothing', { datasets: [{ name: 'small', paths: ['*.bin'] }], placement: { allNodes: true } }),
      preloads().preload('many', { datasets: [{ name: 'small' }], placement: { replicas: 5 } }),
      preloads().preload('large', onNode('huge', 'node1')),
      preloads().preload('early', onNode('later', 'node1')),
    );
    assert.match(await journey().reason('cachepreload', 'nothing', 'NoFilesMatch'), /\*\.bin/);
    assert.match(await journey().reason('cachepreload', 'many', 'TooFewNodes'), /5.*2/);
    await until('those nodes that there are have it all the same', async () => {
      return (await preloads().statusOf('many'))?.nodesReady === 2;
    });
    assert.match(await journey().reason('cachepreload', 'large', 'InsufficientSpace'), /node1/);
    assert.match(await journey().reason('cachepreload', 'early', 'DatasetNotFound'), /later/);
    await journey().apply(preloads().model('later', {}, MiB).manifest);
    await journey().ready('cachepreload/early');
    await journey().remove('cachepreload/nothing', 'cachepreload/many', 'cachepreload/large', 'cachepreload/early');
  });

  it('go on where they were when their origin comes back, and end when they are deleted', async () => {
    const { manifest, size } = preloads().model('shaky');
    await journey().apply(manifest, preloads().model('dropped').manifest);
    await journey().ready('dataset/shaky');
    await journey().ready('dataset/dropped');
    const sent = preloads().origin.sentBytes;
    // The second half must not come before the origin fails.
    preloads().origin.heldFrom = size / 2;
    await journey().apply(preloads().preload('shaky', onNode('shaky', 'node1')));
    await until('some of it has come', async () => ((await preloads().statusOf('shaky'))?.bytesReady ?? 0) > 0);
    preloads().origin.failing = true;
    await until('it says why it waits', async () => /503/.test((await preloads().statusOf('shaky'))?.waitingFor ?? ''));
    preloads().origin.heldFrom = undefined;
    preloads().origin.failing = false;
    await journey().ready('cachepreload/shaky');
    // The origin sends the bytes of an abandoned answer again.
    assert.ok(preloads().origin.sentBytes - sent < 2 * size, `${preloads().origin.sentBytes - sent} bytes for ${size}`);

    // Requests that are under way when it is deleted run to their end, so few may be.
    await journey().apply(
      preloads().preload('dropped', { ...onNode('dropped', 'node1'), rateLimit: { origin: '1Mi' } }),
    );
    await until('it has begun', async () => ((await preloads().statusOf('dropped'))?.bytesReady ?? 0) > 0);
    await journey().remove('cachepreload/dropped');
    await steady('what was sent', 2_000, () => preloads().origin.sentBytes);
    const rows = (await journey().get('dataset', 'dropped'))?.status.residency ?? [];
    assert.ok(!rows.some(({ percent }: { percent: number }) => percent === 100), 'it was brought all the same');
  });
});
