import assert from 'node:assert/strict';
import { createHash } from 'node:crypto';
import { bytesOf, MiB, until } from '@hearth/common/testing';
import { Cluster } from '@hearth/common/testing/agents';
import { FileOrigin } from '@hearth/common/testing/origins';

interface Shown {
  mirrors: string[];
  residency: { node: string; sourcesAside: string[] }[];
}

/** Text, as `hearth cat` gives it here. */
const text = bytesOf(7, 36 * MiB).toString('base64');
const digest = createHash('sha256').update(text).digest('hex');

describe('a dataset with a mirror, through a real agent', () => {
  let cluster: Cluster;
  before(async () => {
    cluster = await Cluster.start(['a']);
  });
  after(async () => cluster?.close());

  for (const stopped of ['the first source', 'the mirror'] as const) {
    it(`reads on without an error or a wrong byte when ${stopped} is stopped in the middle`, async () => {
      const name = stopped.replaceAll(' ', '-');
      const servers = [await FileOrigin.start('127.0.0.1'), await FileOrigin.start('127.0.0.1')] as const;
      try {
        const [source, mirror] = servers.map((server) => server.add(`${name}.txt`, Buffer.from(text)));
        const add = ['dataset', 'add', name, `${source}#sha256=${digest}`, '--mirror', mirror ?? '', '--allow-private'];
        await cluster.json('a', ...add);
        for (const server of servers) server.bytesPerSecond = 2 * MiB;
        const [first, second] = servers;
        const [gone, left] = stopped === 'the first source' ? [first, second] : [second, first];
        const reading = cluster.hearth('a', 'cat', name, `${name}.txt`);
        // An answer is of a chunk of 4 MiB or of two, and takes seconds: this one goes in the middle of one.
        await until('it has given something', () => gone.sentBytes > MiB / 4);
        await gone[Symbol.asyncDispose]();
        left.bytesPerSecond = undefined;
        const { code, stdout, stderr } = await reading;
        assert.equal(code, 0, stderr);
        assert.ok(stdout === text, 'what was read is what the servers have');
        const shown = await until('it is shown that it is put aside', async () => {
          const now = await cluster.json<Shown>('a', 'dataset', 'show', name);
          return now.residency[0]?.sourcesAside.length === 1 ? now : undefined;
        });
        assert.deepEqual(shown.mirrors, [mirror]);
        assert.ok(shown.residency[0]?.sourcesAside[0]?.startsWith(stopped), shown.residency[0]?.sourcesAside[0]);
      } finally {
        await Promise.all(servers.map((server) => server[Symbol.asyncDispose]().catch(() => undefined)));
      }
    });
  }
});
