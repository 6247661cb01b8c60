import assert from 'node:assert/strict';
import { join } from 'node:path';
import { bytesOf, DaemonProcess, elapse, MiB, needsMounts, run, sha256, until } from '@hearth/common/testing';
import { Cluster } from '@hearth/common/testing/agents';
import { OriginGate, type ScriptedServer, sendFile, startServer } from '@hearth/common/testing/origins';

/** Touches all pages of a mapping from a place of its own on, and prints their digest. A page that fails is a SIGBUS. */
const mapping = `
import hashlib, mmap, os, sys
fd = os.open(sys.argv[1], os.O_RDONLY)
size = os.fstat(fd).st_size
pages = mmap.mmap(fd, size, prot=mmap.PROT_READ)
pieces = list(range(0, size, 1 << 20))
first = len(pieces) * int(sys.argv[2]) // 4
read = {at: pages[at : at + (1 << 20)] for at in pieces[first:] + pieces[:first]}
print(hashlib.sha256(b"".join(read[at] for at in pieces)).hexdigest())
`;

const fileBytes = 48 * MiB;
/** So slow that everything is under way when the origin goes. */
const slowRate = 4 * MiB;
const names = ['mapped', 'read', 'warmed'] as const;

describe('an origin that goes away under readers', () => {
  let cluster: Cluster;
  let server: ScriptedServer;
  let gate: OriginGate;
  const files = new Map<string, Buffer>();

  before(async function () {
    needsMounts(this);
    server = await startServer();
    server.handler = (request, response) => {
      const body = files.get(request.url ?? '');
      if (body === undefined) response.writeHead(404).end();
      else sendFile(request, response, body, { etag: `"${sha256(body).slice(0, 16)}"` });
    };
    gate = await OriginGate.start(server.url);
    cluster = await Cluster.start(['a', 'b'], { holder: true });
  });
  after(async () => {
    await cluster?.close();
    await gate?.close();
    await server?.stop();
  });

  const programs = (target: string) => [
    ...['0', '1', '2', '3'].map(
      (place) => new DaemonProcess('python3', ['-c', mapping, join(target, 'mapped'), place]),
    ),
    new DaemonProcess('sha256sum', [join(target, 'read')]),
  ];

  const cases = [
    { seconds: 8, peer: 'runs' },
    { seconds: 8, peer: 'is stopped' },
    { seconds: 30, peer: 'runs' },
    { seconds: 120, peer: 'runs' },
  ];
  for (const [index, { seconds, peer }] of cases.entries())
    it(`for ${seconds} s, while the other agent ${peer}, fails none of them, and each can be killed`, async () => {
      const dataset = `away-${index}`;
      const digests = new Map<string, string>();
      for (const [number, name] of names.entries()) {
        const body = bytesOf(10 * index + number, fileBytes);
        files.set(`/${dataset}/${name}`, body);
        digests.set(name, sha256(body));
      }
      const urls = names.map((name) => `${gate.url}/${dataset}/${name}`);
      await cluster.json('a', 'dataset', 'add', dataset, ...urls, '--allow-private');
      const target = cluster.mountPoint(dataset);
      await cluster.json('a', 'mount', dataset, target, '--data-path', 'fuse');
      const shown = async () => JSON.stringify(await cluster.json('a', 'dataset', 'show', dataset));

      gate.bytesPerSecond = slowRate;
      const before = server.requests.length;
      const readers = programs(target);
      const killed = programs(target);
      const warming = cluster.hearth('a', 'warm', dataset, 'warmed');
      await until('the origin is read', () => server.requests.length > before + 3);
      await gate.close();
      const wentAt = Date.now();
      const other = cluster.agent('b').pid;
      if (peer === 'is stopped') process.kill(other, 'SIGSTOP');
      await until('the dataset says what is waited for', async () =>
        (await shown()).includes('reads wait for it since'),
      );
      await elapse(Math.max(0, wentAt + 5000 - Date.now()), 'programs are killed five seconds later');
      const killedAt = Date.now();
      await Promise.all(killed.map((program) => program.end('SIGKILL')));
      const endedMs = Date.now() - killedAt;
      await elapse(Math.max(0, wentAt + 1000 * seconds - Date.now()), 'the origin is away for so long');
      gate.bytesPerSecond = undefined;
      await gate.open();

      const outcomes = await Promise.all(readers.map((program) => program.outcome));
      process.kill(other, 'SIGCONT');
      for (const [number, { code, stdout, stderr }] of outcomes.entries()) {
        assert.equal(code, 0, `program ${number}: ${stderr}`);
        assert.equal(stdout.split(/\s/)[0], digests.get(number < 4 ? 'mapped' : 'read'), `program ${number}`);
      }
      const { code, stderr } = await warming;
      assert.equal(code, 0, stderr);
      const { stdout } = await run('sha256sum', [join(target, 'warmed')]);
      assert.equal(stdout.split(/\s/)[0], digests.get('warmed'));
      assert.ok(endedMs < 1000, `the killed programs ended after ${endedMs} ms`);
      console.log(`      5 readers and a warm job right; ${killed.length} killed programs ended in ${endedMs} ms`);
      // Agents count what waits every two seconds.
      await until('no read waits any more', async () => !(await shown()).includes('reads wait for it since'));
    });
});
