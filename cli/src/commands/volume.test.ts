import assert from 'node:assert/strict';
import { HearthError } from '@hearth/common';
import { WritableVolume } from '@hearth/common/generated/hearth/v1/control.ts';
import { FakeAgent } from '../testing/fake_agent.ts';
import { jsonLines, runCommand } from '../testing/fake_terminal.ts';

const gib = 1n << 30n;
const volume = (changes: Partial<WritableVolume> = {}) =>
  WritableVolume.fromPartial({
    name: 'kv',
    id: 'ab'.repeat(16),
    kind: 'scratch',
    maxBytes: 10n * gib,
    deadlineMs: 10_000n,
    createdAt: '2026-01-02T03:04:05.000Z',
    state: 'Ready',
    logNode: 'a',
    leader: 'a',
    epoch: 3n,
    usedBytes: gib,
    files: 12n,
    nodes: [{ node: 'b', sessions: 2, sessionBytes: gib / 2n }],
    ...changes,
  });

const followers = [
  { node: 'b', listed: true, lag: 0n, error: '' },
  { node: 'c', listed: true, lag: 1n, error: '' },
  { node: 'd', listed: false, lag: 7n, error: 'd does not answer' },
];

describe('hearth volume', () => {
  let agent: FakeAgent;
  const hearth = (...words: string[]) => runCommand(['--socket', agent.socket, 'volume', ...words]);

  before(async () => {
    agent = await FakeAgent.start({
      createWritableVolume: ({ name, maxBytes, maxFiles }) => volume({ name, maxBytes, maxFiles }),
      getWritableVolume: ({ name }) => {
        if (name === 'kv') return volume();
        if (name === 'led') return volume({ name, followers });
        if (name === 'small') return volume({ name, evictedFiles: 9n, evictedYoungFiles: 4n });
        throw new HearthError('NotFound', `there is no volume ${name}; hearth volume ls lists all volumes`);
      },
      listWritableVolumes: () => ({
        volumes: [volume(), volume({ name: 'w', maxBytes: 0n, state: 'Waiting', leader: '', message: 'a is away' })],
      }),
      resizeWritableVolume: ({ name, maxBytes }) => volume({ name, maxBytes }),
      deleteWritableVolume: () => ({}),
    });
  });
  after(() => agent.stop());
  beforeEach(() => {
    agent.requests.length = 0;
  });

  it('creates a volume with limits', async () => {
    const limits = ['--size', '10Gi', '--files', '5', '--deadline', '1m'];
    const { code, out } = await hearth('create', 'kv', '--kind', 'scratch', ...limits);
    assert.deepEqual([code, out], [0, 'Volume kv: scratch, at most 10.0 GiB, at most 5 files\n']);
    const request = { name: 'kv', kind: 'scratch', maxBytes: 10n * gib, maxFiles: 5n, deadlineMs: 60_000n };
    assert.deepEqual(agent.requests, [['createWritableVolume', request]]);
    assert.equal((await hearth('create', 'kv')).out, 'Volume kv: scratch, no limit of bytes\n');
    assert.equal((await hearth('create', 'kv', '--kind', 'durable')).code, 2);
    assert.match((await hearth('create', 'kv', '--files', '0')).err, /at least 1/);
  });

  it('raises the limit of a volume', async () => {
    const { code, out } = await hearth('resize', 'kv', '20Gi');
    assert.deepEqual([code, out], [0, 'Volume kv: at most 20.0 GiB\n']);
    assert.deepEqual(agent.requests, [['resizeWritableVolume', { name: 'kv', maxBytes: 20n * gib }]]);
    assert.equal((await hearth('resize', 'kv')).code, 2);
    assert.equal((await hearth('resize', 'kv', 'much')).code, 2);
  });

  it('lists volumes with the reasons for waiting', async () => {
    const { out } = await hearth('ls');
    assert.equal(
      out,
      [
        'VOLUME  STATE    KIND        USED      SIZE  FILES  LEADER  EPOCH  MESSAGE',
        'kv      Ready    scratch  1.0 GiB  10.0 GiB     12  a           3',
        'w       Waiting  scratch  1.0 GiB         -     12              3  a is away',
        '',
      ].join('\n'),
    );
  });

  it('shows one volume, and its usage', async () => {
    const { out } = await hearth('show', 'kv');
    assert.match(out, /^Volume {3}kv \(scratch\)\nState {4}Ready\nUsed {5}1\.0 GiB in 12 files; at most 10\.0 GiB\n/);
    assert.match(out, /Leader {3}a, epoch 3\nDeadline 10 s\nLog {6}on a\n/);
    assert.match(out, /b {12}2 {2}512\.0 MiB/);
    assert.doesNotMatch(out, /Evicted/);
    const places =
      /\nLog {6}on a, b, c \(1 record behind\), d \(may not lead yet; 7 records behind; d does not answer\)\n/;
    assert.match((await hearth('show', 'led')).out, places);
    assert.match(
      (await hearth('show', 'small')).out,
      /\nEvicted {2}9 files since the leader began, 4 of them changed less/,
    );
    const { out: usage } = await hearth('du', 'kv');
    assert.match(usage, /^kv {8}1\.0 GiB {2}10\.0 GiB {2}10% {6}512\.0 MiB {5}12 {10}-$/m);
    const [json] = jsonLines((await hearth('du', 'kv', '--json')).out);
    assert.deepEqual(json, {
      volumes: [
        {
          name: 'kv',
          usedBytes: Number(gib),
          maxBytes: Number(10n * gib),
          sessionBytes: Number(gib / 2n),
          files: 12,
          maxFiles: 0,
        },
      ],
    });
    assert.equal((await hearth('show', 'none')).code, 3);
  });

  it('deletes a volume', async () => {
    assert.deepEqual(await hearth('delete', 'kv', '--force'), { code: 0, out: 'Deleted volume kv\n', err: '' });
    assert.deepEqual(agent.requests, [['deleteWritableVolume', { name: 'kv', force: true }]]);
  });
});
