import assert from 'node:assert/strict';
import { join } from 'node:path';
import { bytesOf, MiB, needsMounts, run, sha256 } from '@hearth/common/testing';
import { Cluster } from '@hearth/common/testing/agents';
import { type ScriptedServer, sendFile, startServer } from '@hearth/common/testing/origins';

/** The agents that hold a file; the first file is larger than the cache of the one that reads. */
const files: Record<string, { size: number; held: string }> = {
  huge: { size: 40 * MiB + 17, held: 'a' },
  one: { size: 20 * MiB, held: 'a' },
  two: { size: 20 * MiB + 1, held: 'b' },
  three: { size: 20 * MiB, held: 'b' },
};

describe('reads of more than the cache holds, from agents whose origin has gone', () => {
  let cluster: Cluster;
  let origin: ScriptedServer;

  before(async function () {
    needsMounts(this);
    origin = await startServer();
    const bodies = new Map(Object.entries(files).map(([name, { size }], seed) => [`/${name}`, bytesOf(seed, size)]));
    origin.handler = (request, response) => {
      const body = bodies.get(request.url ?? '');
      if (body === undefined) return response.writeHead(404).end();
      return sendFile(request, response, body, { etag: `"${sha256(body)}"` });
    };
    cluster = await Cluster.start(['a', 'b'], { holder: true });
    await cluster.add('c', { cacheDirectories: `${join(cluster.folder, 'cache-c')}=24MiB:1GiB` });
  });
  after(async () => {
    await cluster?.close();
    await origin?.stop();
  });

  const metric = async (name: string): Promise<number> => {
    const text = await (await fetch(`http://127.0.0.1:${cluster.agent('c').healthPort}/metrics`)).text();
    const rows = [...text.matchAll(/^(\w+)(?:\{[^}]*\})? (\d+)$/gm)].filter(([, found]) => found === name);
    assert.ok(rows.length > 0, `${name} is not in\n${text}`);
    return rows.reduce((sum, [, , value]) => sum + Number(value), 0);
  };

  it('are right to the last byte, again and again, and none fails', async () => {
    const urls = Object.keys(files).map((name) => `${origin.url}/${name}`);
    await cluster.json('a', 'dataset', 'add', 'd', ...urls, '--allow-private');
    for (const [name, { held }] of Object.entries(files)) await cluster.json('a', 'warm', 'd', name, '--node', held);
    await origin.stop();
    const target = cluster.mountPoint('c');
    await cluster.json('c', 'mount', 'd', target, '--data-path', 'fuse');
    const expected = Object.entries(files).map(([name, { size }], seed) => `${sha256(bytesOf(seed, size))}  ${name}`);
    // Two at a time, in opposite order, so that each makes room at the cost of what the other reads.
    const read = async (lines: string[]) => {
      for (const line of lines) {
        const name = line.slice(66);
        const { code, stdout, stderr } = await run('sh', ['-c', 'cd "$1" && sha256sum "$2"', 'sh', target, name]);
        assert.equal(code, 0, stderr);
        assert.equal(stdout.trim(), line);
      }
    };
    for (let round = 0; round < 2; round++) await Promise.all([read(expected), read(expected.toReversed())]);
    assert.ok((await metric('hearth_through_bytes_total')) > 0, 'some could not be kept');
    assert.equal(await metric('hearth_mount_errors_total'), 0);
    await cluster.json('c', 'umount', target);
  });
});
