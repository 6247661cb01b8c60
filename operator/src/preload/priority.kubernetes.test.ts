import assert from 'node:assert/strict';
import { randomBytes } from 'node:crypto';
import { until } from '@hearth/common/testing';
import { FileOrigin } from '@hearth/common/testing/origins';
import { datasetObject } from '../dataset/testing/dataset_cluster.ts';
import { mib, PreloadCluster, requestBytes } from './testing/preload_cluster.ts';

const fileBytes = 8 * mib;
/** Of each answer of an origin, bytes a second. */
const fullRate = 16 * mib;
/** More than an eighth of it: an agent asks again for what is slower (native/origin/origin_host.cc). */
const heldBack = 3 * mib;

describe('CachePreloads that want the same slow origin', () => {
  let cluster: PreloadCluster;
  /** The origin of the second preload alone, so that the bytes of each preload can be counted. */
  let other: FileOrigin;

  before(async function () {
    cluster = await PreloadCluster.start(this);
    other = await FileOrigin.start('127.0.0.1');
    await cluster.addNode('n1');
    const agent = cluster.hearth.agent('n1');
    agent.settings.flags?.push('--engine-shards', '1', '--engine-buffer-bytes', '32MiB');
    await agent.stop();
    await agent.start();
    await cluster.startExecutor();
  });
  after(async () => {
    await cluster?.stop();
    await other?.[Symbol.asyncDispose]();
  });

  /** A Dataset of so many files, when it is Ready; its bytes. */
  async function dataset(name: string, origin: FileOrigin, files: number): Promise<number> {
    const urls = Array.from({ length: files }, (_, index) =>
      origin.add(`${name}/${index}.bin`, randomBytes(fileBytes)),
    );
    await cluster.kubernetes.apply(datasetObject(name, { source: { http: { urls } } }));
    await cluster.kubernetes.reason(name, 'Ready');
    origin.sentBytes = 0;
    origin.bytesPerSecond = fullRate;
    return files * fileBytes;
  }

  it('let the one of higher priority have its bytes first, though the other began', async () => {
    const placement = { nodeNames: ['n1'] };
    const early = await dataset('early', cluster.origin, 20);
    const late = await dataset('late', other, 8);
    // So that it is not over before the late one asks for anything.
    cluster.origin.bytesPerSecond = heldBack;
    await cluster.preload('early', { placement, priority: 100 });
    await cluster.expect('early', 'is on its way', ({ status }) => (status?.bytesReady ?? 0) > 0);
    await cluster.preload('late', { placement, priority: 500 });
    await until('the late one has its turn', () => other.sentBytes > 0);
    const before = cluster.origin.sentBytes;
    assert.ok(before < early / 2, `it came when ${before} of ${early} bytes had been sent`);
    // From now on nothing but its priority is in the way of the early one.
    cluster.origin.bytesPerSecond = fullRate;
    await until('the late one has everything', () => other.sentBytes >= late);
    const meanwhile = cluster.origin.sentBytes - before;
    // Nor is it over before it is seen that the late one is.
    cluster.origin.bytesPerSecond = heldBack;
    // The requests under way, the requests that go on while the late one has made only one, and those seen too late.
    assert.ok(
      meanwhile <= 3 * requestBytes,
      `${meanwhile} bytes of the early one came while ${late} of the late one did`,
    );
    await cluster.ready('late');
    assert.notEqual((await cluster.get('early')).status?.phase, 'Ready');
    cluster.origin.bytesPerSecond = undefined;
    await cluster.ready('early');
    await cluster.sentOnce(early);
    await cluster.sentOnce(late, other);
  });
});
