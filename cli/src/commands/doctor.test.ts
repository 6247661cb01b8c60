import assert from 'node:assert/strict';
import { chmod, mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { FakeAgent } from '../testing/fake_agent.ts';
import { jsonLines, runCommand } from '../testing/fake_terminal.ts';
import { sampleNode } from '../testing/samples.ts';

const kernel = '{"name":"kernel","status":"ok","detail":"Linux 6.18","advice":""}';
const gpu = '{"name":"gpu","status":"missing","detail":"no GPU","advice":"Nothing to do."}';

describe('hearth doctor', () => {
  let directory: string;
  let environment: Record<string, string>;

  /** A hearth-probe that records its arguments and then runs `script`. */
  const fakeProbe = async (script: string) => {
    const path = join(directory, 'probe');
    await writeFile(path, `#!/bin/sh\necho "$@" > ${directory}/words\n${script}\n`);
    await chmod(path, 0o755);
  };
  const doctor = (words: string[] = [], options = {}) =>
    runCommand(['doctor', '--socket', join(directory, 'absent'), ...words], { environment, ...options });

  beforeEach(async () => {
    directory = await mkdtemp(join(tmpdir(), 'hearth-doctor-'));
    environment = { HEARTH_PROBE: join(directory, 'probe') };
  });
  afterEach(() => rm(directory, { recursive: true }));

  it('shows every row with its advice, and exits with 0 when only optional features are missing', async () => {
    await fakeProbe(`echo '${kernel}'\necho '${gpu}'`);
    const { code, out } = await doctor();
    assert.equal(code, 0);
    const lines = out.split('\n');
    assert.match(lines[0] ?? '', /^node {4}ok {8}Node\.js /);
    assert.match(lines[1] ?? '', /^agent {3}missing {3}no agent listens on /);
    assert.match(out, /^kernel {2}ok {8}Linux 6\.18$/m);
    assert.match(out, /^gpu {5}missing {3}no GPU\n {18}Nothing to do\.$/m);
  });

  it('wraps to the terminal', async () => {
    await fakeProbe(`echo '${gpu.replace('no GPU', 'word '.repeat(40).trim())}'`);
    const { out } = await doctor([], { columns: 60 });
    assert.ok(
      out.split('\n').every((line) => line.length <= 60 || !line.includes('word')),
      out,
    );
  });

  it('prints JSON', async () => {
    await fakeProbe(`echo '${gpu}'`);
    const [answer] = jsonLines((await doctor(['--json'])).out) as { probes: Record<string, string>[] }[];
    assert.deepEqual(
      answer?.probes.map((probe) => probe.name),
      ['node', 'agent', 'gpu'],
    );
    assert.deepEqual(Object.keys(answer?.probes[2] ?? {}), ['name', 'status', 'detail', 'advice']);
  });

  it('shows the rows about GPUs alone', async () => {
    const path = '{"name":"gpu path /a","status":"degraded","detail":"bounced: why","advice":"docs/gpu.md"}';
    await fakeProbe(`echo '${kernel}'\necho '${gpu}'\necho '${path}'`);
    const { code, out } = await doctor(['gpu']);
    assert.equal(code, 0);
    assert.match(out, /^gpu {10}missing {3}no GPU\n/);
    assert.match(out, /^gpu path \/a {2}degraded {2}bounced: why$/m);
    assert.doesNotMatch(out, /kernel|node|agent/);
  });

  it('shows the rows about RDMA alone', async () => {
    const row = (name: string) => JSON.stringify({ name, status: 'ok', detail: 'x', advice: '' });
    const asked = ['limits', 'nic eth1', 'rdma mlx5_0', 'gid mlx5_0/1', 'packets mlx5_0/1', 'device files'].concat([
      'route 10.0.0.8',
      'near gpu 0000:19:00.0',
      'near NUMA node 1',
      'peer memory',
      'verbs',
    ]);
    await fakeProbe(`cat <<'END'\n${['kernel', ...asked, 'gpu'].map(row).join('\n')}\nEND`);
    const { code, out } = await doctor(['rdma', '--peer', '10.0.0.8', '--peer', '10.0.0.9']);
    assert.equal(code, 0);
    assert.deepEqual(
      out.split('\n').map((line) => line.split('  ')[0]),
      [...asked, ''],
    );
    const words = await readFile(join(directory, 'words'), 'utf8');
    assert.equal(words, '--deadline 20 --rdma-peer 10.0.0.8 --rdma-peer 10.0.0.9\n');
  });

  it('passes on cache directories, from options or configuration', async () => {
    await fakeProbe('');
    await doctor(['--cache-directory', '/a', '--cache-directory', '/b', '--deadline', '7']);
    const words = () => readFile(join(directory, 'words'), 'utf8');
    assert.equal(await words(), '--deadline 7 --cache-directory /a --cache-directory /b\n');
    environment.HEARTH_CACHE_DIRECTORIES = '/c=200GiB, /d';
    await doctor();
    assert.equal(await words(), '--deadline 20 --cache-directory /c --cache-directory /d\n');
  });

  it('exits with the code of Unsupported when a requirement is missing', async () => {
    await fakeProbe(`echo '{"name":"disk /a","status":"missing","detail":"x","advice":"y"}'`);
    const { code, err } = await doctor();
    assert.equal(code, 13);
    assert.equal(err, 'hearth: 1 requirement missing: disk /a; follow the advice above\n');
  });

  it('tells how to get the probes', async () => {
    const { code, out } = await doctor();
    assert.equal(code, 13);
    assert.match(out, /^probes +missing .*does not exist/m);
    assert.match(out, /make build/);
  });

  it('does not take a broken program for a healthy machine', async () => {
    await fakeProbe('echo broken >&2; exit 3');
    const failed = await doctor();
    assert.equal(failed.code, 70);
    assert.match(failed.err, /ended with status 3: broken/);
    await fakeProbe('echo nonsense');
    assert.equal((await doctor()).code, 12);
  });

  it('reports the agent', async () => {
    await fakeProbe('');
    const agent = await FakeAgent.start({
      getStatus: () => ({
        cluster: 'test',
        node: 'a',
        nodes: [
          sampleNode({
            ready: false,
            reason: 'the store is away',
            capabilities: [
              { name: 'arena', ready: false, reason: '512MiB, not kept: no holder', pods: [], podsLeftOut: 0 },
            ],
          }),
        ],
        datasets: [],
        jobs: [],
        mounts: [],
        volumes: [],
        apiVersion: 1,
        apiFeatures: [],
      }),
    });
    try {
      const { out } = await doctor(['--socket', agent.socket]);
      assert.match(out, /^agent +degraded +a of cluster test, 1 node, not ready: the store is away$/m);
      assert.match(out, /^agent memory +degraded +512MiB, not kept: no holder$/m);
      assert.match(out, /Start hearth-holder/);
    } finally {
      await agent.stop();
    }
  });
});
