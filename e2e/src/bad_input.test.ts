import assert from 'node:assert/strict';
import { randomBytes } from 'node:crypto';
import { writeFileSync } from 'node:fs';
import { connect, createServer, type Server } from 'node:net';
import { join } from 'node:path';
import { MiB, needsMounts, type Outcome, until, writeSample } from '@hearth/common/testing';
import { type AgentSettings, Cluster } from '@hearth/common/testing/agents';

/** An error is one sentence with its code; never a stack. */
function refused(outcome: Outcome, code: number, message: RegExp): void {
  assert.equal(outcome.code, code, outcome.stderr);
  assert.match(outcome.stderr, message);
  assert.doesNotMatch(outcome.stderr, /\n\s+at /);
}

describe('bad input', () => {
  let cluster: Cluster;
  let origin: string;

  before(async () => {
    cluster = await Cluster.start(['a', 'b'], { holder: process.getuid?.() === 0 });
    origin = join(cluster.folder, 'origin');
    writeSample(origin, { one: 9 * MiB, two: 3 * MiB });
    await cluster.json('a', 'dataset', 'add', 'd', origin);
  });
  after(async () => cluster?.close());

  const intact = async (agent = 'a') => {
    const { summary } = await cluster.json<{ summary: Record<string, number> }>(agent, 'verify', 'd');
    assert.equal(summary?.mismatches, 0);
    assert.equal(summary?.bytes, 12 * MiB);
  };
  /** Starts an agent that must end by itself with an error. */
  const fails = async (name: string, settings: AgentSettings): Promise<Outcome> => {
    const started = await cluster.prepare(name, settings).launch();
    return await until(`agent ${name} ends`, () => started.ended);
  };

  it('unknown datasets, files, jobs, mounts and sources are named', async () => {
    refused(await cluster.hearth('a', 'warm', 'nowhere'), 3, /nowhere/);
    refused(await cluster.hearth('a', 'cat', 'd', 'three'), 3, /three/);
    refused(await cluster.hearth('a', 'job', 'show', 'nothing'), 3, /nothing/);
    refused(await cluster.hearth('a', 'umount', '/mnt/hearth-none'), 3, /hearth-none/);
    refused(await cluster.hearth('a', 'dataset', 'add', 'x', join(origin, 'absent')), 3, /absent/);
    refused(await cluster.hearth('a', 'dataset', 'add', 'x', 'ftp://host/x'), 2, /ftp/);
  });

  it('a configuration that is wrong names the key, and the agent does not start', async () => {
    const file = join(cluster.folder, 'wrong.yaml');
    writeFileSync(file, 'cache:\n  directories: [{ path: relative }]\n');
    const outcome = await fails('w', { flags: ['--config', file, '--shutdown-deadline', 'soon'] });
    refused(outcome, 2, /shutdown-deadline/);
    refused(await fails('w', { cacheDirectories: 'relative' }), 2, /cache-directories|cache\.directories/);
    refused(await fails('w', { secretFile: join(cluster.folder, 'absent') }), 2, /absent/);
  });

  it('a port in use', async () => {
    const server = await listen(() => {});
    refused(await fails('p', { wirePort: server.port }), 9, new RegExp(`${server.port}`));
    server.close();
  });

  it('two agents on one cache directory: the second is refused, the first goes on', async () => {
    const { cacheFolder } = cluster.agent('a');
    refused(await fails('second', { cacheDirectories: `${cacheFolder}=1GiB` }), 9, /cache-a/);
    await intact();
  });

  it('two agents of one name', async () => {
    refused(await fails('twin', { flags: ['--node', 'a'] }), 9, /name|node/);
    await intact();
  });

  it('nonsense at the wire port costs only its connection', async () => {
    const port = cluster.agent('a').wirePort ?? 0;
    for (const bytes of [randomBytes(65_536), Buffer.alloc(64, 0xff), Buffer.from('GET / HTTP/1.1\r\n\r\n')]) {
      await new Promise<void>((resolve) => {
        const socket = connect(port, '127.0.0.1', () => socket.write(bytes));
        socket.on('error', () => {});
        socket.on('data', () => {});
        socket.setTimeout(15_000, () => socket.destroy());
        socket.once('close', () => resolve());
      });
    }
    await intact('b');
  });

  it('a mount point that is missing, a file, or busy', async function () {
    needsMounts(this);
    refused(
      await cluster.hearth('a', 'mount', 'd', join(cluster.folder, 'absent'), '--data-path', 'fuse'),
      3,
      /absent/,
    );
    refused(await cluster.hearth('a', 'mount', 'd', join(origin, 'one'), '--data-path', 'fuse'), 2, /one/);
    refused(await cluster.hearth('a', 'mount', 'd', '/proc', '--data-path', 'fuse'), 9, /proc/);
    await cluster.json('a', 'warm', 'd', '--node', 'a');
    refused(await cluster.hearth('a', 'mount', 'd', join(cluster.folder, 'absent')), 3, /absent/);
    refused(await cluster.hearth('a', 'mount', 'd', '/proc'), 9, /proc/);
  });
});

describe('unauthenticated peers among the agents', () => {
  let cluster: Cluster;

  before(async () => {
    cluster = await Cluster.start(['a']);
    const origin = join(cluster.folder, 'origin');
    writeSample(origin, { one: 9 * MiB });
    await cluster.json('a', 'dataset', 'add', 'd', origin);
    await cluster.json('a', 'warm', 'd', '--node', 'a');
  });
  after(async () => cluster?.close());

  it('with another secret or of another cluster get nothing, and nothing is lost', async () => {
    const strangers = await Promise.all([
      cluster.add('thief', { secretFile: cluster.makeSecret('other-secret') }),
      cluster.add('lost', { clusterName: 'elsewhere' }),
    ]);
    const outcomes = await Promise.all(strangers.map(({ name }) => cluster.hearth(name, 'verify', 'd')));
    for (const outcome of outcomes)
      refused(outcome, 6, /the agents that may have it do not answer \(.*(secret was not proved|different clusters)/);
    await Promise.all(strangers.map((stranger) => stranger.stop()));
    const own = await cluster.json<{ summary: Record<string, number> }>('a', 'verify', 'd');
    assert.equal(own.summary.localBytes, 9 * MiB);
  });

  it('an idle agent needs less than 250 MiB', () => {
    const resident = cluster.agent('a').residentMemory();
    assert.ok(resident < 250 * MiB, `${resident / MiB} MiB`);
  });
});

async function listen(handler: () => void): Promise<{ port: number; close(): void }> {
  const server: Server = createServer(handler);
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  const address = server.address();
  return { port: typeof address === 'object' ? (address?.port ?? 0) : 0, close: () => server.close() };
}
