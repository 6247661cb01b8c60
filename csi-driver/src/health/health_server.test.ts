import assert from 'node:assert/strict';
import { HealthServer } from './index.ts';

describe('HealthServer', () => {
  it('answers whether the process lives and serves', async () => {
    let reasons: string[] = [];
    const server = new HealthServer(() => reasons);
    const port = await server.listen('127.0.0.1', 0);
    try {
      const get = async (path: string) => {
        const response = await fetch(`http://127.0.0.1:${port}${path}`);
        return [response.status, await response.text()];
      };
      assert.deepEqual(await get('/healthz'), [200, 'ok\n']);
      assert.deepEqual(await get('/readyz'), [200, 'ok\n']);
      reasons = ['the kubelet has not registered the driver'];
      assert.deepEqual(await get('/readyz'), [503, 'the kubelet has not registered the driver\n']);
      assert.deepEqual((await get('/else'))[0], 404);
      await assert.rejects(new HealthServer(() => []).listen('127.0.0.1', port), {
        code: 'IoError',
        message: /EADDRINUSE/,
      });
    } finally {
      await server.close();
    }
  });
});
