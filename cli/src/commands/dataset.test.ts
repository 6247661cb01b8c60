import assert from 'node:assert/strict';
import { HearthError } from '@hearth/common';
import { AddDatasetProgress } from '@hearth/common/generated/hearth/v1/control.ts';
import { FakeAgent } from '../testing/fake_agent.ts';
import { jsonLines, runCommand } from '../testing/fake_terminal.ts';
import { sampleDataset } from '../testing/samples.ts';

function mirroredDataset() {
  const plain = sampleDataset({ name: 'mirrored' });
  const s3 = { bucket: 'copies', prefix: 'llama', endpoint: '', region: '', pathStyle: false };
  const mirror = { kind: { $case: 's3' as const, value: s3 }, allowPrivate: false, unusableNames: '' };
  const sources = [{ ...mirror, allowWeakValidators: false }];
  const source = { ...plain.source, mirrors: { sources, credentialed: [], sourceHasNone: false } };
  const sourcesAside = ['the mirror s3://copies/llama: no connection'];
  const residency = plain.residency.map((one) => (one.node === 'a' ? { ...one, sourcesAside } : one));
  return { ...plain, source, residency } as typeof plain;
}

describe('hearth dataset', () => {
  let agent: FakeAgent;
  const hearth = (words: string[], options = {}) => runCommand(['--socket', agent.socket, ...words], options);

  before(async () => {
    agent = await FakeAgent.start({
      *addDataset(request) {
        if (request.name === 'broken')
          throw new HearthError('NotFound', 'the repository org/x does not exist; check its name');
        yield AddDatasetProgress.fromPartial({ filesListed: 2n, bytesListed: 1n << 20n });
        yield AddDatasetProgress.fromPartial({
          filesListed: 4n,
          bytesListed: 3n << 30n,
          dataset: sampleDataset({ warnings: ['WeakValidator: a.bin'] }),
          unchanged: request.name === 'same',
        });
      },
      listDatasets: () => ({ datasets: [sampleDataset(), sampleDataset({ name: 'empty', residency: [] })] }),
      getDataset: ({ name }) => {
        if (name === 'mirrored') return mirroredDataset();
        if (name !== 'llama') throw new HearthError('NotFound', `there is no dataset ${name}; see dataset ls`);
        return sampleDataset();
      },
      removeDataset: () => ({}),
    });
  });
  after(() => agent.stop());
  beforeEach(() => {
    agent.requests.length = 0;
  });

  it('resolves a directory against the working directory', async () => {
    const outcome = await hearth([
      'dataset',
      'add',
      'llama',
      'models/llama',
      '--include',
      '*.{json,txt}',
      '--exclude',
      '*.bin',
    ]);
    assert.deepEqual(outcome, {
      code: 0,
      out: 'Added llama: 4 files, 3.0 GiB, revision c0ffee\n',
      err: 'Warning: WeakValidator: a.bin\n',
    });
    assert.deepEqual(agent.requests, [
      [
        'addDataset',
        {
          name: 'llama',
          source: {
            kind: { $case: 'directory', value: { path: '/somewhere/models/llama' } },
            allowPrivate: false,
            allowWeakValidators: false,
            unusableNames: 'Fail',
            mirrors: undefined,
            originWaitSeconds: undefined,
          },
          include: ['*.{json,txt}'],
          exclude: ['*.bin'],
          credentials: undefined,
        },
      ],
    ]);
  });

  it('takes the time for which reads wait for the origin', async () => {
    await hearth(['dataset', 'add', 'llama', '/m', '--origin-wait', '10m']);
    const [[, request] = []] = agent.requests as [string, { source: { originWaitSeconds?: number } }][];
    assert.equal(request?.source.originWaitSeconds, 600);
    const refused = await hearth(['dataset', 'add', 'llama', '/m', '--origin-wait', 'long']);
    assert.match(refused.err, /--origin-wait takes a time such as 30s, 10m or 1h/);
  });

  it('shows the listing on a terminal and clears it', async () => {
    const { out } = await hearth(['dataset', 'add', 'llama', '/m'], { interactive: true, columns: 60 });
    assert.ok(out.startsWith('Listing llama: 2 files, 1.0 MiB\n\x1b[1A\r\x1b[J'), JSON.stringify(out));
    assert.match(out, /Added llama/);
  });

  it('reports an unchanged dataset', async () => {
    assert.match((await hearth(['dataset', 'add', 'same', '/m'])).out, /^Unchanged llama: /);
  });

  it('writes each step of adding as JSON', async () => {
    const { out } = await hearth(['dataset', 'add', 'llama', '/m', '--json']);
    const [step, last = {}] = jsonLines(out) as [object, { unchanged?: boolean; dataset?: { name: string } }];
    assert.deepEqual(step, { filesListed: 2, bytesListed: 1048576 });
    assert.equal(last.unchanged, false);
    assert.equal(last.dataset?.name, 'llama');
  });

  it("exits with the code of the agent's error", async () => {
    const outcome = await hearth(['dataset', 'add', 'broken', 'hf://org/x']);
    assert.deepEqual(outcome, {
      code: 3,
      out: '',
      err: 'hearth: the repository org/x does not exist; check its name\n',
    });
  });

  it('lists datasets', async () => {
    const { out } = await hearth(['dataset', 'ls']);
    assert.deepEqual(out.split('\n').slice(0, 3), [
      'DATASET  STATE  FILES     SIZE  RESIDENT            REVISION  SOURCE',
      'llama    Ready      4  3.0 GiB  complete on 1 of 2  c0ffee    hf://org/llama@main',
      'empty    Ready      4  3.0 GiB  nowhere             c0ffee    hf://org/llama@main',
    ]);
  });

  it('lists datasets as JSON with integers', async () => {
    const { out } = await hearth(['dataset', 'ls', '--json']);
    const [{ datasets } = { datasets: [] }] = jsonLines(out) as { datasets: Record<string, unknown>[] }[];
    assert.deepEqual(datasets[0], {
      name: 'llama',
      manifest: 'ab'.repeat(32),
      revision: 'c0ffee',
      files: 4,
      bytes: 3221225472,
      state: 'Ready',
      message: '',
      warnings: [],
      createdAt: '2026-01-02T03:04:05Z',
      residency: [
        {
          node: 'a',
          residentBytes: 3221225472,
          memoryBytes: 2147483648,
          completeFiles: 4,
          pinned: true,
          dataPath: 'view',
          reason: '',
          sourcesAside: [],
        },
        {
          node: 'b',
          residentBytes: 1073741824,
          memoryBytes: 0,
          completeFiles: 1,
          pinned: false,
          dataPath: 'daemon',
          reason: 'not complete',
          sourcesAside: [],
        },
      ],
      source: 'hf://org/llama@main',
      sourceKind: 'hub',
      use: 0,
      usedAtMs: 0,
    });
  });

  it('shows one dataset', async () => {
    const { out } = await hearth(['dataset', 'show', 'llama']);
    assert.match(out, /^Source {4}hf:\/\/org\/llama@main$/m);
    assert.match(out, /^Size {6}3\.0 GiB \(3221225472 bytes\)$/m);
    assert.match(out, /^a +3\.0 GiB +100% +4\/4 +2\.0 GiB +yes +view/m);
    assert.match(out, /^b +1\.0 GiB +33% +1\/4 +no +daemon +not complete$/m);
  });

  it("reports mirrors that the agent's release does not support", async () => {
    const { code, err } = await hearth(['dataset', 'add', 'llama', '/m', '--mirror', '/n']);
    assert.notEqual(code, 0);
    assert.match(err, /was added without its mirrors.*upgrade the agents and add the dataset again/);
  });

  it('shows mirrors, and where a mirror is put aside', async () => {
    const { out } = await hearth(['dataset', 'show', 'mirrored']);
    assert.match(out, /^Mirror {4}s3:\/\/copies\/llama$/m);
    assert.match(out, /^Aside {5}on a: the mirror s3:\/\/copies\/llama: no connection$/m);
    const [json] = jsonLines((await hearth(['dataset', 'show', 'mirrored', '--json'])).out) as [{ mirrors: string[] }];
    assert.deepEqual(json.mirrors, ['s3://copies/llama']);
  });

  it('names an unknown dataset', async () => {
    const outcome = await hearth(['dataset', 'show', 'nope']);
    assert.deepEqual(outcome, { code: 3, out: '', err: 'hearth: there is no dataset nope; see dataset ls\n' });
  });

  it('writes errors as JSON on request', async () => {
    const { code, err } = await hearth(['--json', 'dataset', 'show', 'nope']);
    assert.equal(code, 3);
    assert.deepEqual(jsonLines(err), [
      { error: { code: 'NotFound', message: 'there is no dataset nope; see dataset ls' } },
    ]);
  });

  it('removes a dataset', async () => {
    const outcome = await hearth(['dataset', 'rm', 'llama', '--evict']);
    assert.equal(outcome.out, 'Removed llama and its bytes from all caches\n');
    assert.deepEqual(agent.requests, [['removeDataset', { name: 'llama', evict: true, nodes: [] }]]);
  });
});
