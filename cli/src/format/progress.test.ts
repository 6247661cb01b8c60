import assert from 'node:assert/strict';
import { sampleJob } from '../testing/samples.ts';
import { jobLine, renderBar, renderJob } from './progress.ts';
import { displayWidth } from './table.ts';

describe('progress', () => {
  const style = { columns: 100, rows: 20, colour: false, unicode: false };

  it('draws bars of exactly the requested width', () => {
    assert.equal(renderBar(0, 12, false), '[----------]');
    assert.equal(renderBar(0.55, 12, false), '[#####-----]');
    assert.equal(renderBar(7, 12, false), '[##########]');
    assert.equal(renderBar(0.55, 12, true), '[█████▌    ]');
    for (let part = 0; part <= 100; part++) assert.equal(displayWidth(renderBar(part / 100, 23, true)), 23);
  });

  it('shows totals, rate, time left and a row for each node', () => {
    assert.deepEqual(renderJob(sampleJob(), style), [
      'Running warm-llama-1  [#############--------------]  50%  3.0 GiB of 6.0 GiB  512.0 MiB/s, 6 s left',
      '  a       Verifying  100%  3.0 GiB  (origin 2.0 GiB, peers 1.0 GiB)  4/4 files, 2 verified',
      '  node-b  Running      0%  0 B  (origin 0 B, peers 0 B)  0/4 files',
    ]);
  });

  it('keeps within the width, without the bar when there is no room', () => {
    for (const columns of [20, 40, 60, 80, 200]) {
      const lines = renderJob(sampleJob(), { ...style, columns });
      assert.ok(
        lines.every((line) => displayWidth(line) <= columns),
        lines.join('\n'),
      );
    }
    assert.ok(!renderJob(sampleJob(), { ...style, columns: 60 })[0]?.includes('['));
  });

  it('sums up nodes that do not fit the screen', () => {
    const [node] = sampleJob().nodes;
    assert.ok(node !== undefined);
    const nodes = Array.from({ length: 1000 }, (_, index) => ({
      ...node,
      node: `n${index}`,
      state: index < 600 ? 'Running' : 'Succeeded',
    }));
    const lines = renderJob(sampleJob({ nodes }), { ...style, rows: 5 });
    assert.equal(lines.length, 5);
    assert.equal(lines[4], '  and 997 more: 597 Running, 400 Succeeded');
  });

  it('omits rate and time when the agent does not report them', () => {
    const [first] = renderJob(sampleJob({ bytesPerSecond: 0n, secondsLeft: 0n }), style);
    assert.match(first ?? '', / 50% {2}3\.0 GiB of 6\.0 GiB$/);
  });

  it('paints the state', () => {
    const [first] = renderJob(sampleJob({ state: 'Failed' }), { ...style, colour: true });
    assert.ok(first?.startsWith('\u001b[31mFailed\u001b[0m warm-llama-1'));
  });

  it('shows bytes in memory and stored bytes, with both times', () => {
    const gib = 1n << 30n;
    const coming = sampleJob({ bytesInMemory: 5n * gib });
    assert.equal(renderJob(coming, style)[1], '  5.0 GiB in memory, 1.0 GiB missing');
    const memory = { bytesInMemory: 6n * gib, inMemoryAt: '2026-01-02T03:04:08Z', secondsToMemory: 3.2 };
    assert.equal(renderJob(sampleJob(memory), style)[1], '  in memory after 3.2 s, 3.0 GiB not stored yet');
    const stored = { bytesReady: 6n * gib, storedAt: '2026-01-02T03:04:13Z', secondsToStored: 7.94 };
    const done = sampleJob({ ...memory, ...stored, bytesPerSecond: 0n, secondsLeft: 0n });
    assert.equal(renderJob(done, style)[1], '  in memory after 3.2 s, stored after 7.9 s');
    const line = 'warm-llama-1 Running 100%: 6.0 GiB of 6.0 GiB; in memory after 3.2 s, stored after 7.9 s';
    assert.equal(jobLine(done), line);
    const [node] = sampleJob().nodes;
    assert.ok(node !== undefined);
    const nodes = [{ ...node, inMemoryAt: memory.inMemoryAt, secondsToMemory: 2 }];
    assert.match(
      renderJob(sampleJob({ nodes }), { ...style, columns: 200 })[1] ?? '',
      /verified {2}in memory after 2\.0 s$/,
    );
    assert.equal(renderJob(coming, { ...style, rows: 3 }).length, 3);
  });

  it('writes one line for logs', () => {
    assert.equal(jobLine(sampleJob()), 'warm-llama-1 Running 50%: 3.0 GiB of 6.0 GiB, 512.0 MiB/s, 6 s left');
  });
});
