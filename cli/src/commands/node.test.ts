import assert from 'node:assert/strict';
import { controlApi, HearthError } from '@hearth/common';
import { Entry, EvictedNode } from '@hearth/common/generated/hearth/v1/control.ts';
import { elapse, TestClock } from '@hearth/common/testing';
import { FakeAgent } from '../testing/fake_agent.ts';
import { jsonLines, runCommand } from '../testing/fake_terminal.ts';
import { sampleDataset, sampleFile, sampleJob, sampleMount, sampleNode } from '../testing/samples.ts';

const file = (path: string, changes: Partial<Entry> = {}) =>
  Entry.fromPartial({
    path,
    kind: 'file',
    size: 2048n,
    residentBytes: 1024n,
    sourceDigest: 'ab'.repeat(32),
    ...changes,
  });

/** Commands that print the rows of a single call. */
describe('hearth commands', () => {
  let agent: FakeAgent;
  const hearth = (words: string[], options = {}) => runCommand(['--socket', agent.socket, ...words], options);

  let apiFeatures = [...controlApi.apiFeatures];
  before(async () => {
    const capabilities = [
      { name: 'holder', ready: false, reason: 'the mount holder is of release 0.0.9', pods: [], podsLeftOut: 0 },
    ];
    agent = await FakeAgent.start({
      getStatus: () => ({
        cluster: 'test',
        node: 'a',
        nodes: [
          sampleNode(),
          sampleNode({ node: 'b', ready: false, reason: 'its lease ended', usedBytes: 95n << 30n, capabilities }),
        ],
        datasets: [sampleDataset()],
        jobs: [sampleJob()],
        mounts: [sampleMount()],
        volumes: [],
        apiVersion: 1,
        apiFeatures,
      }),
      mount: ({ dataset, target }) => {
        if (target === '/busy') throw new HearthError('InUse', '/busy is mounted already; unmount it first');
        return sampleMount({ dataset, target });
      },
      unmount: () => ({}),
      listMounts: () => ({ mounts: [sampleMount()] }),
      pin: ({ nodes }) => ({ nodes: nodes.length > 0 ? nodes : ['a', 'b'], failures: [] }),
      unpin: ({ dataset }) => ({ nodes: dataset === 'unknown' ? [] : ['a'], failures: [] }),
      evict: () => ({
        nodes: [
          EvictedNode.fromPartial({
            node: 'a',
            bytesFreed: 1n << 30n,
            filesFreed: 3n,
            filesKept: 1n,
            message: '1 file is pinned',
          }),
        ],
      }),
      *verify({ dataset, paths }) {
        if (paths.includes('none')) return;
        yield sampleFile();
        if (dataset === 'bad')
          yield sampleFile({ path: 'config.json', bytes: 5n, ok: false, message: 'byte 3 differs' });
        if (dataset === 'damaged') yield sampleFile({ path: 'config.json', repairedBlocks: 3n, message: 'blocks 1-3' });
      },
      *read({ offset, length }) {
        const all = Buffer.from('0123456789');
        const end = length === 0n ? all.length : Number(offset + length);
        for (const byte of all.subarray(Number(offset), end)) yield { data: Buffer.of(byte) };
      },
      *listEntries({ recursive }) {
        yield file('a\u001b[31m.bin');
        yield file(recursive ? 'd/e.bin' : 'd', recursive ? {} : { kind: 'directory' });
        yield file('link', { kind: 'symlink', symlinkTarget: 'a.bin' });
      },
    });
  });
  after(() => agent.stop());
  beforeEach(() => {
    agent.requests.length = 0;
  });

  it('status shows nodes, datasets, jobs and mounts', async () => {
    const { code, out } = await hearth(['status']);
    assert.equal(code, 0);
    assert.match(out, /^Cluster test: 2 nodes, 1 ready; asked a\n\nNODE /);
    assert.match(
      out,
      /^a +ready +z1 +\[##--------\] +25\.0 GiB +100\.0 GiB +500\.0 GiB +3\.0 GiB .* 1 h 01 min +0\.1\.0$/m,
    );
    assert.match(out, /^b +not ready .* its lease ended$/m);
    assert.match(out, /\n\nDATASET .*\n\nJOB .*\n\nMOUNT POINT /s);
  });

  it('status counts outdated mount holders and gives the next step', async () => {
    const { out } = await hearth(['status']);
    assert.match(out, /\n1 of 1 mount holders are outdated:\n {2}b: the mount holder is of release 0\.0\.9\n/);
  });

  it("status names features that are off where an agent's API differs", async () => {
    assert.doesNotMatch((await hearth(['status'])).out, /control API/);
    apiFeatures = controlApi.apiFeatures.filter((name) => name !== 'rebound-times');
    const { out } = await hearth(['status']);
    const [status] = jsonLines((await hearth(['status', '--json'])).out) as { apiDifferences: string[] }[];
    apiFeatures = [...controlApi.apiFeatures];
    const expected =
      'the agent on a (release 0.1.0) lacks features of the control API (rebound-times: the agent reports a pod only once even if its mounts die again); upgrade the agent';
    assert.ok(out.includes(`\n${expected}.\n`), out);
    assert.deepEqual(status?.apiDifferences, [expected]);
  });

  it('status prints JSON with integers, and sources as text', async () => {
    const [status] = jsonLines((await hearth(['status', '--json'])).out) as {
      nodes: { budgetBytes: number; residentBytes: object; capabilities: object[] }[];
      datasets: { source: string }[];
    }[];
    assert.equal(status?.nodes[0]?.budgetBytes, 107374182400);
    assert.deepEqual(status?.nodes[0]?.residentBytes, { llama: 3221225472 });
    assert.deepEqual(status?.nodes[0]?.capabilities, [
      { name: 'rdma', ready: false, reason: 'no device', pods: [], podsLeftOut: 0 },
    ]);
    assert.equal(status?.datasets[0]?.source, 'hf://org/llama@main');
  });

  it('status --watch refreshes within the screen until interrupted', async () => {
    const controller = new AbortController();
    const clock = new TestClock();
    const shownAt: number[] = [];
    let ended = false;
    const running = hearth(['status', '--watch', '10'], {
      interactive: true,
      columns: 80,
      rows: 9,
      interrupt: controller.signal,
      clock,
      onOutput: () => {
        if (shownAt.push(clock.now()) === 2) controller.abort();
      },
    });
    void running.then(() => {
      ended = true;
    });
    // Each answer takes real time.
    for (; !ended; await elapse(1, 'an answer takes real time')) await clock.advance(500);
    const { code, out } = await running;
    const [first = 0, second = 0] = shownAt;
    assert.ok(second - first >= 10_000, `${shownAt}`);
    assert.equal(code, 0);
    assert.ok(out.includes('\x1b[8A\r\x1b[J'), JSON.stringify(out));
    assert.match(out, /… \d+ more lines\n$/);
  });

  it('mounts, lists and unmounts below the working directory', async () => {
    assert.equal(
      (await hearth(['mount', 'llama', 'm'], { directory: '/mnt' })).out,
      'Mounted llama on /mnt/m, data path fuse (not complete)\n',
    );
    assert.match((await hearth(['mounts'])).out, /^\/mnt\/llama +llama +fuse +12 +1\.0 GiB +0 +2 +not complete$/m);
    assert.equal((await hearth(['unmount', './m'], { directory: '/mnt' })).out, 'Unmounted /mnt/m\n');
    assert.deepEqual(jsonLines((await hearth(['umount', '/x', '--json'])).out), [{ target: '/x' }]);
    assert.deepEqual(agent.requests.at(-1), ['unmount', { target: '/x' }]);
  });

  it('exits with the code of a busy mount point', async () => {
    const outcome = await hearth(['mount', 'llama', '/busy', '--data-path', 'daemon']);
    assert.deepEqual(outcome, { code: 9, out: '', err: 'hearth: /busy is mounted already; unmount it first\n' });
    assert.deepEqual(agent.requests, [['mount', { dataset: 'llama', target: '/busy', dataPath: 'daemon' }]]);
  });

  it('pins and unpins', async () => {
    assert.equal((await hearth(['pin', 'llama', '--node', 'b'])).out, 'Pinned llama on 1 node: b\n');
    assert.deepEqual(agent.requests.at(-1)?.[1], {
      ...{ dataset: 'llama', paths: [], nodes: ['b'], owner: 'user' },
      ...{ manifest: '', tolerant: false, moreOwners: [] },
    });
    assert.equal((await hearth(['unpin', 'llama', '*.bin', '--owner', 'job:x'])).out, 'Unpinned llama on 1 node: a\n');
    assert.deepEqual(agent.requests.at(-1)?.[1], {
      ...{ dataset: 'llama', paths: ['*.bin'], nodes: [], owner: 'job:x' },
      ...{ manifest: '', tolerant: false, moreOwners: [] },
    });
    assert.deepEqual(jsonLines((await hearth(['pin', 'llama', '--json'])).out), [{ nodes: ['a', 'b'] }]);
    assert.equal((await hearth(['unpin', 'unknown'])).code, 3);
  });

  it('evicts', async () => {
    assert.match((await hearth(['evict', 'llama'])).out, /^a +1\.0 GiB +3 +1 +1 file is pinned$/m);
    assert.deepEqual(jsonLines((await hearth(['evict', 'llama', '--json'])).out), [
      { nodes: [{ node: 'a', bytesFreed: 1073741824, filesFreed: 3, filesKept: 1, message: '1 file is pinned' }] },
    ]);
  });

  it('verifies with a row for each file and the totals', async () => {
    const { code, out } = await hearth(['verify', 'llama', '--origin']);
    assert.equal(code, 0);
    assert.deepEqual(out.split('\n'), [
      'ok          3.0 GiB  cdcdcdcdcdcd  view         local 3.0 GiB       model.safetensors',
      '1 file, 3.0 GiB: all match (local 3.0 GiB)',
      '',
    ]);
    assert.deepEqual(agent.requests, [['verify', { dataset: 'llama', paths: [], mode: 'origin' }]]);
  });

  it('verify exits with a code other than 0 when a file does not match', async () => {
    const outcome = await hearth(['verify', 'bad', '--summary']);
    assert.equal(outcome.code, 11);
    assert.match(outcome.out, /^BAD .* config\.json {2}byte 3 differs\n2 files, 3\.0 GiB: 1 do not match/);
    assert.match(outcome.err, /^hearth: 1 of 2 files of bad do not match; check the disks/);
  });

  it('verify names what was repaired, and is content', async () => {
    const { code, out } = await hearth(['verify', 'damaged', '--summary']);
    assert.equal(code, 0);
    assert.match(
      out,
      /^repaired .* config\.json {2}blocks 1-3\n2 files, 6\.0 GiB: all match, 3 blocks of 1 file repaired/,
    );
  });

  it('verify prints JSON, one line a file and a summary', async () => {
    const [first, last] = jsonLines((await hearth(['verify', 'llama', '--json'])).out);
    assert.deepEqual(first, {
      path: 'model.safetensors',
      bytes: 3221225472,
      sha256: 'cd'.repeat(32),
      ok: true,
      message: '',
      originBytes: 0,
      peerBytes: 0,
      localBytes: 3221225472,
      dataPath: 'view',
      repairedBlocks: 0,
    });
    assert.deepEqual(last, {
      summary: {
        files: 1,
        bytes: 3221225472,
        mismatches: 0,
        repairedFiles: 0,
        repairedBlocks: 0,
        originBytes: 0,
        peerBytes: 0,
        localBytes: 3221225472,
      },
    });
  });

  it('verify rejects an empty selection', async () => {
    assert.equal((await hearth(['verify', 'llama', 'none'])).code, 3);
  });

  it('cat writes bytes of files', async () => {
    assert.equal((await hearth(['cat', 'llama', 'x'])).out, '0123456789');
    assert.equal((await hearth(['cat', 'llama', 'x', '--offset', '2', '--length', '3'])).out, '234');
    assert.equal((await hearth(['cat', 'llama', 'x', '--length', '0'])).out, '');
  });

  it('ls lists entries, without control characters in names', async () => {
    assert.equal((await hearth(['ls', 'llama', '/sub/'])).out, 'a\uFFFD[31m.bin\nd/\nlink -> a.bin\n');
    assert.deepEqual(agent.requests, [['listEntries', { dataset: 'llama', path: 'sub', recursive: false }]]);
    assert.deepEqual(
      (await hearth(['ls', 'llama', '-rl'])).out.split('\n')[2],
      ' 2.0 KiB       50%  abababababab  d/e.bin'.slice(1),
    );
    assert.equal(jsonLines((await hearth(['ls', 'llama', '--json'])).out)[0]?.path, 'a\u001b[31m.bin');
  });
});
