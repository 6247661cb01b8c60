import assert from 'node:assert/strict';
import { createHash } from 'node:crypto';
import type { ServerResponse } from 'node:http';
import { join } from 'node:path';
import { bytesOf, MiB, needsMounts, sha256, start, until } from '@hearth/common/testing';
import { Cluster } from '@hearth/common/testing/agents';
import { type ScriptedServer, sendFile, startServer } from '@hearth/common/testing/origins';

const commit = createHash('sha1').update('commit').digest('hex');

describe('an agent that is ended in order while a reader of its mount waits', () => {
  const body = bytesOf(1, 9 * MiB + 5);
  let cluster: Cluster;
  let server: ScriptedServer;
  /** Requests for this part of a path are kept waiting. */
  let kept = '';
  let waiting: (() => void)[] = [];

  before(async function () {
    needsMounts(this);
    server = await startServer();
    server.handler = (request, response) => {
      const { url = '' } = request;
      const answer = () => {
        if (url.startsWith('/blob')) sendFile(request, response, body, { etag: '"1"' });
        else hub(url, response);
      };
      if (kept !== '' && url.includes(kept)) waiting.push(answer);
      else answer();
    };
    cluster = await Cluster.start(['a'], { holder: true });
  });
  after(async () => {
    await cluster?.close();
    await server?.stop();
  });

  /** A hub whose files are elsewhere, each by a redirect. */
  function hub(url: string, response: ServerResponse): void {
    const json = (value: unknown) =>
      response.writeHead(200, { 'content-type': 'application/json' }).end(JSON.stringify(value));
    if (url.startsWith('/api/models/org/m/revision/')) json({ sha: commit, siblings: [] });
    else if (url.startsWith(`/api/models/org/m/tree/${commit}`)) {
      const oid = sha256(body);
      json([{ type: 'file', oid, size: body.length, path: 'm.bin', lfs: { oid, size: body.length } }]);
    } else response.writeHead(302, { location: `${server.url}/blob?X-Amz-Signature=secret` }).end();
  }

  for (const [what, path] of [
    ['for the place of its bytes', '/resolve/'],
    ['for bytes', '/blob'],
  ] as const) {
    it(`${what}: the next agent answers it`, async () => {
      const agent = cluster.agent('a');
      const target = cluster.mountPoint('a');
      await cluster.json('a', 'dataset', 'add', 'd', 'hf://org/m', '--endpoint', server.url, '--allow-private');
      await cluster.json('a', 'mount', 'd', target, '--data-path', 'fuse');
      kept = path;
      waiting = [];
      const reader = start('sha256sum', [join(target, 'm.bin')]);
      await until('the origin is asked', () => waiting.length > 0);

      const { code, stderr } = await agent.stop();
      assert.equal(code, 0, stderr);
      kept = '';
      for (const answer of waiting) answer();
      await agent.start();

      const read = await reader.outcome;
      assert.equal(read.code, 0, read.stderr);
      assert.equal(read.stdout.slice(0, 64), sha256(body));
      await cluster.json('a', 'umount', target);
      await cluster.json('a', 'evict', 'd');
      await cluster.json('a', 'dataset', 'rm', 'd');
    });
  }
});
