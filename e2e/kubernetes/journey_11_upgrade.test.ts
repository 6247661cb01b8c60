import assert from 'node:assert/strict';
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { bytesOf, MiB, ok, sha256, skip, tool, until } from '@hearth/common/testing';
import { chartFolder, type Manifest, releaseNamespace } from '@hearth/common/testing/kubernetes';
import { FileOrigin } from '@hearth/common/testing/origins';
import { etcdImage } from '../cluster/images/basic_images.ts';
import { hearthImageName, previousImage, previousImageName } from '../cluster/images/hearth_image.ts';
import { findPreviousCommit } from '../src/previous_release.ts';
import { useOwnCluster } from './cluster_fixture.ts';
import { clusterName, inline, Journey, ofClaim } from './journey.ts';

const place = ['-n', releaseNamespace];

/** Images and charts of two releases, on a cluster of their own. */
describe('an upgrade from the previous release by helm, and back', function () {
  this.timeout(1_800_000);
  const whole = bytesOf(1101, 6 * MiB);
  const part = bytesOf(1102, 40 * MiB);
  const cluster = useOwnCluster('upgrade');
  let origin: FileOrigin;
  let journey: Journey;
  let values: string[];

  before(async function () {
    this.timeout(60 * 60_000); // The first run on a machine builds the image of the previous release.
    const previous = await findPreviousCommit();
    if ('missing' in previous) skip(this, previous.missing);
    const charts = join(cluster().folder, 'previous');
    await cluster().importImage(await previousImage(previous.commit, charts));
    origin = await FileOrigin.start(cluster().network.hostAddress);
    journey = new Journey(cluster(), 'default', origin);
    values = ['--set', `imagePullPolicy=Never,etcd.image=${etcdImage(await tool('etcd'))}`];
    const install = ['install', 'hearth', join(charts, 'hearth'), ...place, '--create-namespace', ...values];
    await ok(cluster().helm([...install, '--set', `image=${previousImageName}`, '--wait', '--timeout', '8m']));
    await journey.apply(journey.storageCluster);
    await journey.ready(`storagecluster/${clusterName}`);
  });
  after(() => origin?.[Symbol.asyncDispose]());

  /** Waits until every pod that a release replaces runs an image, and is ready. */
  async function runs(image: string): Promise<void> {
    for (const component of ['operator', 'csi-node', 'agent']) {
      const select = ['-l', `app.kubernetes.io/component=${component}`, '-o', 'json'];
      await until(`every ${component} runs ${image}`, async () => {
        // Sooner or later every page comes from the disk or the agent.
        writeFileSync('/proc/sys/vm/drop_caches', '1');
        const { items } = JSON.parse(await ok(cluster().kubectl([...place, 'get', 'pods', ...select])));
        return items.length === 2 && (items as Manifest[]).every((pod) => isReady(pod) && imageOf(pod) === image);
      });
    }
    await journey.ready(`storagecluster/${clusterName}`);
  }

  /** Watchers go on, and new pods read what is there and what is not. */
  async function readsOn(step: string): Promise<void> {
    for (const name of ['view', 'fuse']) {
      const before = await journey.rounds(name);
      await until(`${name} reads on`, async () => (await journey.rounds(name)) > before + 10);
    }
    const bytes = bytesOf(step.length, 3 * MiB);
    const url = origin.add(step, bytes);
    await journey.apply(journey.dataset(step, { http: { urls: [url] } }));
    await journey.ready(`dataset/${step}`);
    for (const [dataset, expected] of [
      ['whole', whole],
      [step, bytes],
    ] as const) {
      const name = `${step}-${dataset}`;
      const command = `sha256sum /models/${dataset}`;
      await journey.apply(journey.reader(name, inline(dataset), { command, node: 'node2' }));
      assert.equal((await journey.finished(name)).slice(0, 64), sha256(expected), name);
    }
  }

  it('has pods that read a view and a mount, by the previous release', async () => {
    for (const [name, bytes] of Object.entries({ whole, part })) {
      await journey.apply(journey.dataset(name, { http: { urls: [origin.add(name, bytes)] } }));
      await journey.ready(`dataset/${name}`);
    }
    await journey.apply(journey.claim('whole'), journey.claim('part'));
    await journey.apply(journey.reader('first', inline('whole'), { command: 'cat /models/whole > /dev/null' }));
    await journey.finished('first');
    await until('all of it is there', async () => (await journey.get('dataset', 'whole'))?.status.nodes === 1);
    await journey.apply(journey.watcher('view', ofClaim('whole'), 'whole', sha256(whole)));
    // Mounted while nothing of it is there.
    await journey.apply(journey.watcher('fuse', ofClaim('part'), 'part', sha256(part)));
    for (const name of ['view', 'fuse']) {
      await journey.ready(`pod/${name}`);
      await until(`${name} reads`, async () => (await journey.rounds(name)) > 0);
    }
  });

  it('becomes this release, and pods read on', async () => {
    const upgrade = ['upgrade', 'hearth', chartFolder, ...place, ...values, '--set', `image=${hearthImageName}`];
    await ok(cluster().helm([...upgrade, '--wait', '--timeout', '8m']));
    await runs(hearthImageName);
    await readsOn('upgraded');
  });

  it('has holders of this release once their pods were deleted, and pods read on', async () => {
    for (const node of cluster().nodes) {
      const [holder] = await journey.partOn('holder', node);
      await ok(cluster().kubectl([...place, 'delete', 'pod', holder?.metadata.name ?? '', '--wait=true']));
      await until(`a holder of this release on ${node.name}`, async () => {
        const [next, ...more] = await journey.partOn('holder', node);
        return next !== undefined && more.length === 0 && isReady(next) && imageOf(next) === hearthImageName;
      });
    }
    await readsOn('held');
  });

  it('becomes the previous release again by a rollback, and pods read on', async () => {
    await ok(cluster().helm(['rollback', 'hearth', '1', ...place, '--wait', '--timeout', '8m']));
    await runs(previousImageName);
    await readsOn('rolled-back');
  });
});

function isReady({ metadata, status }: Manifest): boolean {
  const ready = (status?.conditions ?? []).find(({ type }: { type: string }) => type === 'Ready');
  return !('deletionTimestamp' in metadata) && ready?.status === 'True';
}

function imageOf({ spec }: Manifest): string {
  return spec.containers[0].image;
}
