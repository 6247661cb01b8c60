import assert from 'node:assert/strict';
import { errorTable } from '@hearth/common';
import { AdviseResponse } from '@hearth/common/generated/hearth/v1/control.ts';
import { FakeAgent } from '../testing/fake_agent.ts';
import { jsonLines, runCommand } from '../testing/fake_terminal.ts';
import { sampleJob } from '../testing/samples.ts';

describe('hearth advise', () => {
  let agent: FakeAgent;
  const hearth = (words: string[]) => runCommand(['--socket', agent.socket, 'advise', ...words]);
  const freed = { node: 'a', filesFreed: 3n, bytesFreed: 3n << 30n, memoryBytesFreed: 1n << 30n };
  const kept = { node: 'b', filesKept: 1n, filesPinned: 1n, message: '1 pinned (hearth unpin)' };
  let answer: AdviseResponse;

  before(async () => {
    agent = await FakeAgent.start({
      advise: ({ advice }) =>
        advice === 'willneed' ? AdviseResponse.fromPartial({ job: sampleJob({ name: 'advice-1' }) }) : answer,
      *watchWarmJob({ name }) {
        yield sampleJob({ name, state: 'Succeeded' });
      },
    });
  });
  after(() => agent.stop());
  beforeEach(() => {
    agent.requests.length = 0;
    answer = AdviseResponse.fromPartial({ nodes: [freed, kept] });
  });

  it('willneed names the job that fetches', async () => {
    const { code, out } = await hearth(['willneed', 'llama', 'a/**', '--node', 'a,node-b']);
    assert.deepEqual([code, out], [0, 'advice-1 fetches llama on 2 nodes: a, node-b\n']);
    const request = { advice: 'willneed', dataset: 'llama', paths: ['a/**'], manifest: '', scope: 'node' };
    assert.deepEqual(agent.requests, [
      ['advise', { ...request, nodes: ['a', 'node-b'], memoryOnly: false, force: false }],
    ]);
  });

  it('willneed follows the job when asked to', async () => {
    const { code } = await hearth(['willneed', 'llama', '--scope', 'cluster', '--follow']);
    assert.equal(code, 0);
    assert.deepEqual(
      agent.requests.map(([name]) => name),
      ['advise', 'watchWarmJob'],
    );
  });

  it('dontneed shows released and kept files with the reasons', async () => {
    const { code, out } = await hearth(['dontneed', 'llama', '--scope', 'cluster']);
    assert.equal(code, 0);
    assert.match(out, /^a +3 +3\.0 GiB +1\.0 GiB +0$/m);
    assert.match(out, /^b +0 +0 B +0 B +1 +1 pinned \(hearth unpin\)$/m);
    assert.match(out, /^Released 3 files, 3\.0 GiB in caches and 1\.0 GiB in memory, on 2 nodes$/m);
  });

  it('dontneed names files missing at the origin, and cancelled jobs', async () => {
    const lacking = { filesNotInOrigin: 2n, bytesNotInOrigin: 1n << 20n, pathsNotInOrigin: ['x.bin'] };
    answer = AdviseResponse.fromPartial({ nodes: [freed], ...lacking, cancelledJobs: ['advice-1'] });
    const { out } = await hearth(['dontneed', 'llama']);
    assert.match(
      out,
      /^Kept 2 files \(1\.0 MiB\) that the origin of llama no longer has as listed: x\.bin, \.\.\.; --force releases them, too$/m,
    );
    assert.match(out, /^Cancelled the jobs that fetched them: advice-1$/m);
  });

  it('dontneed fails when an agent does not answer', async () => {
    const away = { node: 'b', errorCode: 'Unavailable', message: 'the agent does not serve' };
    answer = AdviseResponse.fromPartial({ nodes: [freed, away] });
    const { code, out } = await hearth(['dontneed', 'llama', '--memory']);
    assert.equal(code, errorTable.Unavailable.exit);
    assert.match(out, /^Released 1\.0 GiB in memory, on 1 node$/m);
  });

  it('prints JSON', async () => {
    const { out } = await hearth(['dontneed', 'llama', '--force', '--json']);
    const [printed] = jsonLines(out) as [{ nodes: { node: string; filesFreed: number }[] }];
    assert.deepEqual(
      printed.nodes.map(({ node, filesFreed }) => [node, filesFreed]),
      [
        ['a', 3],
        ['b', 0],
      ],
    );
    assert.equal(agent.requests[0]?.[1].force, true);
  });

  it('accepts only valid scopes', async () => {
    assert.equal((await hearth(['dontneed', 'llama', '--scope', 'all'])).code, errorTable.InvalidArgument.exit);
  });
});
