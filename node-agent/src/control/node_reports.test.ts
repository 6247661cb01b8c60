import assert from 'node:assert/strict';
import type { ClientReadableStream } from '@grpc/grpc-js';
import type { NodeReport, WatchNodeRequest } from '@hearth/common/generated/hearth/v1/control.ts';
import { until } from '@hearth/common/testing';
import { collect, TestControl, warmJob } from './testing/test_control.ts';

const whole: WatchNodeRequest = { intervalMs: 100, known: undefined, once: false, datasets: [] };

describe('reports of a node', () => {
  let control: TestControl;
  beforeEach(async () => {
    control = await TestControl.start();
  });
  afterEach(() => control.close());

  function follow(stream: ClientReadableStream<NodeReport>): NodeReport[] {
    const seen: NodeReport[] = [];
    stream.on('data', (report: NodeReport) => seen.push(report));
    stream.on('error', () => {});
    return seen;
  }

  const bytesOf = (reports: readonly NodeReport[]) =>
    reports.flatMap(({ datasets }) => datasets.map(({ residentBytes }) => residentBytes)).at(-1);

  it('are streamed whole at first, then as changes, and go on where a stream ended', async () => {
    await control.add();
    await until('the dataset is counted', () => control.cluster.agent('a').statistics.current?.residency.d);
    const stream = control.client.watchNode(whole);
    const seen = follow(stream);
    await until('the first report', () => bytesOf(seen) === 0n);
    assert.equal(seen[0]?.whole, true);
    await control.call('createWarmJob', { ...warmJob, nodes: ['a'] });
    await until('the bytes', () => bytesOf(seen) === 3_000_010n);
    assert.deepEqual(
      seen.slice(1).filter((report) => report.whole),
      [],
    );
    stream.cancel();

    const known = seen.at(-1)?.mark;
    const again = await collect(control.client.watchNode({ ...whole, known, once: true }));
    assert.deepEqual(
      again.map((report) => report.whole),
      [false],
    );
    assert.deepEqual(again[0]?.datasets, []);
    const other = await collect(control.client.watchNode({ ...whole, once: true, datasets: ['none'] }));
    assert.deepEqual([other[0]?.whole, other[0]?.datasets, other[0]?.figures?.budgetBytes], [true, [], 1n << 40n]);
  });

  it('leave the status without figures to those who want records only', async () => {
    await control.add();
    await control.call('createWarmJob', { ...warmJob, nodes: ['b'] });
    await until(
      'the bytes',
      () => control.cluster.agent('b').statistics.current?.residency.d?.residentBytes === 3_000_010n,
    );
    const status = await control.call('getStatus', {});
    assert.deepEqual(
      status.nodes.map((node) => node.residentBytes.d),
      [0n, 3_000_010n],
    );
    const records = await control.call('getStatus', { recordsOnly: true });
    assert.deepEqual(
      records.nodes.map((node) => [node.node, node.ready, node.budgetBytes]),
      [
        ['a', true, 0n],
        ['b', true, 0n],
      ],
    );
    assert.deepEqual(
      records.datasets.map((dataset) => [dataset.name, dataset.residency]),
      [['d', []]],
    );
    control.cluster.unreachable.add('b');
    const [, b] = (await control.call('getStatus', {})).nodes;
    assert.deepEqual([b?.budgetBytes, b?.figuresMissing], [0n, 'agent b is cut off']);
  });
});
