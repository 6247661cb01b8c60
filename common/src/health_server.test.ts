import assert from 'node:assert/strict';
import { HearthError } from './error.ts';
import { HealthServer, type HealthSource } from './health_server.ts';
import { silentLogger } from './logger.ts';

describe('health server', () => {
  const servers: HealthServer[] = [];
  afterEach(async () => {
    for (const server of servers.splice(0)) await server.close();
  });
  const serve = async (source: HealthSource, port = 0) => {
    const server = new HealthServer(source, silentLogger);
    servers.push(server);
    return await server.bind({ host: '127.0.0.1', port }, (error) => new HearthError('InUse', `${error.code}`));
  };
  const ask = async (port: number, path: string, method = 'GET') => {
    const response = await fetch(`http://127.0.0.1:${port}${path}`, { method });
    return [response.status, await response.text()];
  };

  it('reports liveness, and the reasons for not being ready', async () => {
    let reasons: string[] = [];
    const port = await serve({ reasons: () => reasons });
    assert.deepEqual(await ask(port, '/healthz'), [200, 'ok\n']);
    assert.deepEqual(await ask(port, '/readyz?verbose'), [200, 'ok\n']);
    reasons = ['the kubelet has not registered the driver', 'the socket is not there'];
    assert.deepEqual(await ask(port, '/readyz'), [503, `${reasons.join('\n')}\n`]);
    assert.deepEqual(await ask(port, '/healthz'), [200, 'ok\n']);
    assert.deepEqual(await ask(port, '/healthz', 'POST'), [405, 'only GET and HEAD\n']);
  });

  it('returns metrics of a process that has some, and nothing else', async () => {
    const without = await serve({ reasons: () => [] });
    assert.deepEqual(await ask(without, '/metrics'), [404, 'there are /healthz and /readyz\n']);
    let failure: Error | undefined;
    const metrics = async () => {
      if (failure !== undefined) throw failure;
      return { contentType: 'text/plain', text: 'up 1\n' };
    };
    const port = await serve({ reasons: () => [], metrics });
    assert.deepEqual(await ask(port, '/metrics'), [200, 'up 1\n']);
    failure = new HearthError('Unavailable', 'the engine is busy');
    assert.deepEqual(await ask(port, '/metrics'), [500, 'the engine is busy\n']);
    assert.deepEqual(await ask(port, '/else'), [404, 'there are /healthz, /readyz and /metrics\n']);
  });

  it('explains an address that cannot be bound', async () => {
    const port = await serve({ reasons: () => [] });
    await assert.rejects(serve({ reasons: () => [] }, port), { code: 'InUse', message: 'EADDRINUSE' });
  });
});
