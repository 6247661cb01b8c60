import assert from 'node:assert/strict';
import { randomBytes } from 'node:crypto';
import { until } from '@hearth/common/testing';
import { FileOrigin } from '@hearth/common/testing/origins';
import { datasetObject } from '../../../operator/src/dataset/testing/dataset_cluster.ts';
import { mib, PreloadCluster } from './fixture.ts';

const fileBytes = 8 * mib;
/** What an agent with one thread and so few buffers asks an origin for at a time. */
const requestBytes = 8 * mib;

describe('CachePreloads that want the same slow origin', () => {
  let cluster: PreloadCluster;
  /** That of the second preload: so it is known of each how many bytes it has been sent. */
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
    origin.bytesPerSecond = 16 * mib;
    return files * fileBytes;
  }

  it('let the one of higher priority have its bytes first, though the other began', async () => {
    const placement = { nodeNames: ['n1'] };
    const early = await dataset('early', cluster.origin, 20);
    const late = await dataset('late', other, 8);
    await cluster.preload('early', { placement, priority: 100 });
    await cluster.expect('early', 'is on its way', ({ status }) => (status?.bytesReady ?? 0) > 0);
    await cluster.preload('late', { placement, priority: 500 });
    await until('the late one has its turn', () => other.sentBytes > 0);
    const before = cluster.origin.sentBytes;
    assert.ok(before < early / 2, `it came when ${before} of ${early} bytes had been sent`);
    await until('the late one has everything', () => other.sentBytes === late);
    const meanwhile = cluster.origin.sentBytes - before;
    // What was under way, what goes on while the late one has asked for one request only, and what is seen too late.
    assert.ok(
      meanwhile <= 3 * requestBytes,
      `${meanwhile} bytes of the early one came while ${late} of the late one did`,
    );
    await cluster.ready('late');
    assert.notEqual((await cluster.get('early')).status?.phase, 'Ready');
    await cluster.ready('early');
    assert.deepEqual([cluster.origin.sentBytes, other.sentBytes], [early, late], 'and each byte was read once');
  });
});
