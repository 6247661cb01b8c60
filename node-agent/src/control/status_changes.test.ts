import assert from 'node:assert/strict';
import { Dataset, GetStatusResponse, NodeStatus, WarmJob } from '@hearth/common/generated/hearth/v1/control.ts';
import { RunningClock, until } from '@hearth/common/testing';
import { watchChanges } from './status_changes.ts';

describe('changes of the status', () => {
  let status: GetStatusResponse;
  let tell: () => void;
  let clock: RunningClock;
  let ending: AbortController;
  let stream: AsyncGenerator<GetStatusResponse>;

  beforeEach(() => {
    clock = new RunningClock();
    ending = new AbortController();
    status = GetStatusResponse.fromPartial({ cluster: 'c', node: 'a' });
    status.nodes = [NodeStatus.fromPartial({ node: 'a' })];
    status.datasets = ['x', 'y'].map((name) => Dataset.fromPartial({ name }));
    status.jobs = [WarmJob.fromPartial({ name: 'j' })];
    const source = {
      status: async () => status,
      onChange: (listener: () => void) => {
        tell = listener;
        return () => {};
      },
    };
    stream = watchChanges(source, 100, ending.signal, clock);
  });
  afterEach(() => ending.abort());

  const next = async () => (await stream.next()).value as GetStatusResponse;
  const names = ({ nodes, datasets, jobs }: GetStatusResponse) => [
    nodes.map(({ node }) => node),
    datasets.map(({ name }) => name),
    jobs.map(({ name }) => name),
  ];

  it('begin with all records, and go on with those that have changed or gone', async () => {
    const whole = await next();
    assert.deepEqual([whole.changes?.whole, whole.changes?.more, whole.cluster], [true, false, 'c']);
    assert.deepEqual(names(whole), [['a'], ['x', 'y'], ['j']]);
    const changed = next();
    status = {
      ...status,
      jobs: [],
      datasets: [Dataset.fromPartial({ name: 'x', use: 1 }), Dataset.fromPartial({ name: 'y', files: 2n })],
    };
    await until('the stream listens', () => tell !== undefined);
    tell();
    assert.deepEqual(names(await changed), [[], ['y'], []], 'decayed use is no change');
    assert.deepEqual((await changed).changes?.jobsGone, ['j']);
  });

  it('come at least every half minute', async () => {
    await next();
    let empty: GetStatusResponse | undefined;
    void next().then((message) => {
      empty = message;
    });
    await until('half a minute has passed', async () => {
      await clock.advance(31_000);
      return empty !== undefined;
    });
    assert.deepEqual([names(empty as unknown as GetStatusResponse), empty?.changes?.whole], [[[], [], []], false]);
  });

  it('are divided into messages of less than 1 MiB', async () => {
    const message = 'm'.repeat(1_000);
    status.datasets = Array.from({ length: 2_000 }, (_, index) => Dataset.fromPartial({ name: `d${index}`, message }));
    const parts = [await next()];
    while (parts.at(-1)?.changes?.more) parts.push(await next());
    assert.ok(parts.length > 1);
    for (const part of parts) assert.ok(GetStatusResponse.encode(part).finish().length < 1 << 20);
    assert.equal(parts.flatMap(({ datasets }) => datasets).length, 2_000);
    assert.deepEqual(
      parts.map(({ changes }) => changes?.whole),
      parts.map((_, index) => index === 0),
    );
  });
});
