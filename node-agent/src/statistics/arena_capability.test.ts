import assert from 'node:assert/strict';
import { until } from '@hearth/common/testing';
import { TestCluster } from '../testing/cluster.ts';
import { freshArena } from '../testing/fake_statistics.ts';
import { arenaCapability } from './arena_capability.ts';

describe('memory for chunks of a node', () => {
  it('is described with its pages, holder, recovered chunks and the reasons for not being better', () => {
    assert.deepEqual(arenaCapability({ ...freshArena, touchedByHolder: true }), {
      name: 'arena',
      ready: true,
      reason:
        '512MiB in transparent pages of 2 MiB; kept by the mount holder for the next agent, charged to the mount holder',
    });
    const lesser = arenaCapability({
      ...freshArena,
      pages: 'small',
      reason: 'the kernel makes none',
      unkept: 'no mount holder is configured',
      givenUp: 'it has 256 MiB, and 512 MiB are wanted',
      smaller: 'it is 512 MiB and not 1024 MiB, as the holder touches no more',
      quarantinedBytes: 8n << 20n,
    });
    assert.deepEqual(lesser, {
      name: 'arena',
      ready: false,
      reason: [
        '512MiB in pages of 4 KiB',
        'not kept for the next agent, charged to the agent: no mount holder is configured',
        'it is 512 MiB and not 1024 MiB, as the holder touches no more',
        "the previous agent's memory was discarded: it has 256 MiB, and 512 MiB are wanted",
        '8MiB are not used, because input or output of an earlier agent may be in progress there',
        'no better pages: the kernel makes none',
      ].join('; '),
    });
    const adopted = arenaCapability({ ...freshArena, adopted: true, foundBytes: 64n << 20n });
    assert.match(adopted.reason, /; taken over from the previous agent with 64MiB of chunks$/);
  });

  it('is reported', async () => {
    const cluster = await TestCluster.start(['a', 'b'], []);
    try {
      const seen = () => cluster.agent('a').statistics.current?.capabilities.find(({ name }) => name === 'arena');
      await until(() => seen()?.ready === true);
      cluster.engine('a').arena = { ...freshArena, unkept: 'the mount holder is away' };
      await until(() => seen()?.ready === false);
      assert.match(seen()?.reason ?? '', /the mount holder is away/);
    } finally {
      await cluster.close();
    }
  });
});
