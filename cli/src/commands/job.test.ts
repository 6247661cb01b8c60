import assert from 'node:assert/strict';
import { setTimeout as sleep } from 'node:timers/promises';
import { errorTable, HearthError } from '@hearth/common';
import { TestClock, until } from '@hearth/common/testing';
import { FakeAgent } from '../testing/fake_agent.ts';
import { jsonLines, runCommand } from '../testing/fake_terminal.ts';
import { sampleJob } from '../testing/samples.ts';

describe('hearth warm and job', () => {
  let agent: FakeAgent;
  const hearth = (words: string[], options = {}) => runCommand(['--socket', agent.socket, ...words], options);
  const whole = 6n << 30n;
  const done = sampleJob({ state: 'Succeeded', bytesReady: whole, bytesPerSecond: 0n, secondsLeft: 0n, nodes: [] });

  before(async () => {
    agent = await FakeAgent.start({
      createWarmJob: ({ dataset, name }) => {
        if (dataset === 'nope') throw new HearthError('NotFound', 'there is no dataset nope; see dataset ls');
        return sampleJob({ name: name || 'warm-llama-1', state: 'Pending' });
      },
      async *watchWarmJob({ name }) {
        yield sampleJob({ name, bytesReady: 0n });
        switch (name) {
          case 'failing':
            yield sampleJob({
              name,
              state: 'Failed',
              errorCode: 'OutOfSpace',
              message: 'node a has no room; evict something',
            });
            return;
          case 'cancelled':
            yield sampleJob({ name, state: 'Cancelled' });
            return;
          case 'cut':
            return;
          case 'endless':
            for (let step = 1n; ; step++) {
              await sleep(10);
              yield sampleJob({ name, bytesReady: step });
            }
        }
        yield { ...done, name };
      },
      getWarmJob: ({ name }) => sampleJob({ name }),
      listWarmJobs: () => ({ jobs: [sampleJob(), done] }),
      cancelWarmJob: ({ name }) => sampleJob({ name, state: 'Cancelled' }),
    });
  });
  after(() => agent.stop());
  beforeEach(() => {
    agent.requests.length = 0;
    agent.cancelled.length = 0;
  });

  it('creates a job and follows it to its end', async () => {
    const words = [
      'warm',
      'llama',
      '*.json',
      '--node',
      'a,b',
      '--node',
      'c',
      '--pin',
      '--pin-owner',
      'tests/1',
      '--peer-rate',
      '2MiB/s',
      '--rate',
      '1GiB/s',
      '--deadline',
      '2m',
    ];
    const outcome = await hearth(words);
    assert.equal(outcome.code, 0);
    assert.deepEqual(outcome.out.split('\n'), [
      'warm-llama-1 Running 0%: 0 B of 6.0 GiB, 512.0 MiB/s, 6 s left',
      'warm-llama-1 Succeeded 100%: 6.0 GiB of 6.0 GiB',
      '',
    ]);
    assert.deepEqual(agent.requests[0]?.[1], {
      dataset: 'llama',
      paths: ['*.json'],
      nodes: ['a', 'b', 'c'],
      replicas: 0,
      manifest: '',
      pin: true,
      pinOwner: 'tests/1',
      priority: 100,
      rateLimit: 1n << 30n,
      peerRateLimit: 2n << 20n,
      deadlineSeconds: 120n,
      verify: 'checksum',
      name: '',
      ensure: false,
    });
    assert.equal((await hearth(['warm', 'llama', '--pin-owner', 'x'])).code, errorTable.InvalidArgument.exit);
  });

  it('redraws on a terminal', async () => {
    const { out } = await hearth(['warm', 'llama'], { interactive: true, columns: 100, rows: 24 });
    assert.ok(out.startsWith('Running warm-llama-1  [---'), out);
    assert.ok(out.includes('\x1b[3A\r\x1b[J'), JSON.stringify(out));
    assert.match(out, /Succeeded warm-llama-1 {2}\[#+\] 100% {2}6\.0 GiB of 6\.0 GiB\n$/);
  });

  it('writes one JSON object a change', async () => {
    const { out } = await hearth(['warm', 'llama', '--json']);
    const [first, last] = jsonLines(out);
    assert.equal(first?.bytesTotal, Number(whole));
    assert.deepEqual(Object.keys(first ?? {}).sort(), [
      'bytesPerSecond',
      'bytesReady',
      'bytesTotal',
      'bytesVerified',
      'createdAt',
      'dataset',
      'endedAt',
      'errorCode',
      'manifest',
      'message',
      'name',
      'nodes',
      'peerRateLimit',
      'pin',
      'pinOwner',
      'rateLimit',
      'secondsLeft',
      'state',
    ]);
    assert.equal(last?.state, 'Succeeded');
  });

  it('prints the name and ends when detached', async () => {
    assert.deepEqual(await hearth(['warm', 'llama', '--detach']), { code: 0, out: 'warm-llama-1\n', err: '' });
    assert.deepEqual(agent.requests.length, 1);
  });

  it('gives the exit code of a failed job', async () => {
    const outcome = await hearth(['warm', 'llama', '--name', 'failing']);
    assert.equal(outcome.code, 8);
    assert.equal(outcome.err, 'hearth: the job failing failed: node a has no room; evict something\n');
  });

  it('gives 130 for a job that somebody cancelled, and says so', async () => {
    const outcome = await hearth(['job', 'watch', 'cancelled']);
    assert.equal(outcome.code, 130);
    assert.equal(outcome.err, 'hearth: the job cancelled was cancelled\n');
  });

  it('does not take a cut stream for success', async () => {
    const outcome = await hearth(['job', 'watch', 'cut']);
    assert.equal(outcome.code, 6);
    assert.match(outcome.err, /stopped reporting the job cut while it was Running/);
  });

  it('lets the job go on when it is interrupted', async () => {
    const controller = new AbortController();
    const outcome = await hearth(['warm', 'llama', '--name', 'endless'], {
      interrupt: controller.signal,
      onOutput: () => controller.abort(),
    });
    assert.equal(outcome.code, 130);
    assert.match(
      outcome.err,
      /^The job endless goes on\. .*`hearth job watch endless`.*`hearth job cancel endless`\.\n$/,
    );
    assert.ok(!agent.requests.some(([method]) => method === 'cancelWarmJob'));
    await until('it is cancelled', () => agent.cancelled.length > 0);
    assert.deepEqual(agent.cancelled, ['watchWarmJob']);
  });

  it('waits for an agent that restarts', async () => {
    const endless = async function* () {
      for (;;) {
        yield sampleJob();
        await sleep(10);
      }
    };
    const first = await FakeAgent.start({ watchWarmJob: endless });
    let second: FakeAgent | undefined;
    const outcome = await runCommand(['job', 'watch', 'x', '--json', '--socket', first.socket], {
      onOutput: async () => {
        if (second !== undefined || first.killed) return;
        await first.kill();
        await sleep(300);
        second = await FakeAgent.start({ watchWarmJob: () => [done] }, first);
      },
    });
    assert.equal(outcome.code, 0, outcome.err);
    assert.match(outcome.err, /^The agent went away; waiting for it to come back\.\n$/);
    assert.equal(jsonLines(outcome.out).at(-1)?.state, 'Succeeded');
    await second?.stop();
  });

  it('gives up on an agent that stays away', async () => {
    const agentOnce = await FakeAgent.start({
      async *watchWarmJob() {
        yield sampleJob();
        await sleep(10_000, undefined, { ref: false });
      },
    });
    const clock = new TestClock();
    let ended = false;
    const running = runCommand(['job', 'watch', 'x', '--timeout', '30', '--socket', agentOnce.socket], {
      onOutput: () => agentOnce.kill(),
      clock,
    });
    void running.then(() => {
      ended = true;
    });
    // It tries every half a second, and each try takes real time.
    for (; !ended; await sleep(1)) await clock.advance(500);
    const outcome = await running;
    assert.ok(clock.now() > 30_000, 'so long it waits');
    assert.equal(outcome.code, 6);
    assert.match(outcome.err, /waiting for it to come back\.\nhearth: the agent at .* went away/);
    await agentOnce.stop();
  });

  it('reports an unknown dataset', async () => {
    assert.equal((await hearth(['warm', 'nope'])).code, 3);
  });

  const refused: [string[], RegExp][] = [
    [['warm'], /missing required argument 'dataset'/],
    [['warm', 'llama', '--rate', 'fast'], /--rate <bytes>.*'fast' is invalid.*bytes a second/],
    [['warm', 'llama', '--rate', '0'], /bytes a second/],
    [['warm', 'llama', '--deadline', '5'], /at least one second/],
    [['warm', 'llama', '--replicas', '0'], /whole number from 1/],
    [['warm', 'llama', '--verify', 'maybe'], /Allowed choices are none, checksum, digest/],
    [['warm', 'llama', '--node', ''], /must not be empty/],
  ];
  for (const [words, message] of refused) {
    it(`refuses ${words.join(' ')}`, async () => {
      const outcome = await hearth(words);
      assert.equal(outcome.code, 2);
      assert.match(outcome.err, message);
      assert.equal(agent.requests.length, 0);
    });
  }

  it('lists jobs', async () => {
    const { out } = await hearth(['jobs']);
    const [, running, ended] = out.split('\n');
    assert.match(running ?? '', /^warm-llama-1 +llama +Running +50% +6\.0 GiB +512\.0 MiB\/s +6 s +2 /);
    assert.match(ended ?? '', /Succeeded +100% +6\.0 GiB +- +- +0 /);
    assert.deepEqual((await hearth(['job', 'ls'])).out, out);
  });

  it('shows and cancels a job', async () => {
    assert.match(
      (await hearth(['job', 'show', 'x'])).out,
      /^Running x .*\n {2}a +Verifying +100%.*\n {2}node-b +Running /,
    );
    assert.equal((await hearth(['job', 'cancel', 'x'])).out, 'x is Cancelled\n');
    assert.equal(jsonLines((await hearth(['job', 'cancel', 'x', '--json'])).out)[0]?.state, 'Cancelled');
  });
});
