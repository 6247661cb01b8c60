import assert from 'node:assert/strict';
import { errorTable, HearthError } from '@hearth/common';
import type { WarmJob } from '@hearth/common/generated/hearth/v1/control.ts';
import { elapse, TestClock, until } from '@hearth/common/testing';
import { FakeAgent } from '../testing/fake_agent.ts';
import { jsonLines, runCommand } from '../testing/fake_terminal.ts';
import { sampleJob } from '../testing/samples.ts';

describe('hearth warm and job', () => {
  let agent: FakeAgent;
  const hearth = (words: string[], options = {}) => runCommand(['--socket', agent.socket, ...words], options);
  const whole = 6n << 30n;
  const done = sampleJob({ state: 'Succeeded', bytesReady: whole, bytesPerSecond: 0n, secondsLeft: 0n, nodes: [] });

  let listed = [sampleJob(), done];
  const memory = { readyWhen: 'memory', ready: true, bytesInMemory: whole };
  const inMemory = (job: WarmJob): WarmJob => ({
    ...job,
    ...memory,
    inMemoryAt: '2026-01-02T03:04:08.250Z',
    secondsToMemory: 3.25,
  });
  const endless = new Promise<void>(() => undefined);

  before(async () => {
    agent = await FakeAgent.start({
      createWarmJob: ({ dataset, name, readyWhen }) => {
        if (dataset === 'nope') throw new HearthError('NotFound', 'there is no dataset nope; see dataset ls');
        return sampleJob({
          name: name || 'warm-llama-1',
          state: 'Pending',
          ...(name === 'in-memory' ? { readyWhen } : {}),
        });
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
          case 'in-memory':
            yield inMemory(sampleJob({ name }));
            await endless;
            return;
          case 'endless':
            for (let step = 1n; ; step++) {
              await elapse(10, 'a pace');
              yield sampleJob({ name, bytesReady: step });
            }
        }
        yield { ...done, name };
      },
      getWarmJob: ({ name }) => sampleJob({ name }),
      listWarmJobs: () => ({ jobs: listed }),
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
      readyWhen: 'stored',
    });
    assert.equal((await hearth(['warm', 'llama', '--pin-owner', 'x'])).code, errorTable.InvalidArgument.exit);
  });

  it('redraws on a terminal', async () => {
    const { out } = await hearth(['warm', 'llama'], { interactive: true, columns: 100, rows: 24 });
    assert.ok(out.startsWith('Running warm-llama-1  [---'), out);
    assert.ok(out.includes('\x1b[3A\r\x1b[J'), JSON.stringify(out));
    assert.match(out, /Succeeded warm-llama-1 {2}\[#+\] 100% {2}6\.0 GiB of 6\.0 GiB\n$/);
  });

  it('writes one JSON object for each change', async () => {
    const { out } = await hearth(['warm', 'llama', '--json']);
    const [first, last] = jsonLines(out);
    assert.equal(first?.bytesTotal, Number(whole));
    assert.deepEqual(Object.keys(first ?? {}).sort(), [
      'advice',
      'bytesInMemory',
      'bytesPerSecond',
      'bytesReady',
      'bytesTotal',
      'bytesVerified',
      'createdAt',
      'dataset',
      'endedAt',
      'errorCode',
      'inMemoryAt',
      'manifest',
      'message',
      'name',
      'nodes',
      'peerRateLimit',
      'pin',
      'pinOwner',
      'rateLimit',
      'ready',
      'readyWhen',
      'secondsLeft',
      'secondsToMemory',
      'secondsToStored',
      'state',
      'storedAt',
    ]);
    assert.equal(last?.state, 'Succeeded');
  });

  it('returns when all bytes are in memory on request, and says that the job continues', async () => {
    const words = ['warm', 'llama', '--name', 'in-memory', '--ready-when', 'memory'];
    const outcome = await hearth(words);
    assert.equal(outcome.code, 0, outcome.err);
    const [, last] = outcome.out.trimEnd().split('\n');
    assert.match(last ?? '', /^in-memory Running 50%: .*; in memory after 3\.3 s, 3\.0 GiB not stored yet$/);
    assert.match(
      outcome.err,
      /^The job in-memory is ready in memory and continues .*`hearth job watch in-memory`.*\n$/,
    );
    const [created] = agent.requests;
    assert.partialDeepStrictEqual(created, ['createWarmJob', { readyWhen: 'memory' }]);
    assert.ok(!agent.requests.some(([method]) => method === 'cancelWarmJob'));
    const { out } = await hearth([...words, '--json']);
    const { bytesInMemory, inMemoryAt, secondsToMemory, storedAt, ready } = jsonLines(out).at(-1) ?? {};
    assert.deepEqual(
      [bytesInMemory, inMemoryAt, secondsToMemory, storedAt, ready],
      [Number(whole), '2026-01-02T03:04:08.250Z', 3.25, '', true],
    );
  });

  it('waits until all is stored with an agent that does not report memory, and says so', async () => {
    const outcome = await hearth(['warm', 'llama', '--ready-when', 'memory']);
    assert.equal(outcome.code, 0);
    assert.match(outcome.out, /Succeeded 100%/);
    assert.match(
      outcome.err,
      /^The agent does not report bytes in memory: the job is ready when its bytes are stored\./,
    );
    assert.equal((await hearth(['warm', 'llama'])).err, '');
  });

  it('prints the name and exits when detached', async () => {
    assert.deepEqual(await hearth(['warm', 'llama', '--detach']), { code: 0, out: 'warm-llama-1\n', err: '' });
    assert.deepEqual(agent.requests.length, 1);
  });

  it('exits with the code of a failed job', async () => {
    const outcome = await hearth(['warm', 'llama', '--name', 'failing']);
    assert.equal(outcome.code, 8);
    assert.equal(outcome.err, 'hearth: the job failing failed: node a has no room; evict something\n');
  });

  it('exits with 130 for a job that another user cancelled, and says so', async () => {
    const outcome = await hearth(['job', 'watch', 'cancelled']);
    assert.equal(outcome.code, 130);
    assert.equal(outcome.err, 'hearth: the job cancelled was cancelled\n');
  });

  it('does not take a truncated stream for success', async () => {
    const outcome = await hearth(['job', 'watch', 'cut']);
    assert.equal(outcome.code, 6);
    assert.match(outcome.err, /stopped reporting the job cut while it was Running/);
  });

  it('leaves the job running when interrupted', async () => {
    const controller = new AbortController();
    const outcome = await hearth(['warm', 'llama', '--name', 'endless'], {
      interrupt: controller.signal,
      onOutput: () => controller.abort(),
    });
    assert.equal(outcome.code, 130);
    assert.match(
      outcome.err,
      /^The job endless continues\. .*`hearth job watch endless`.*`hearth job cancel endless`\.\n$/,
    );
    assert.ok(!agent.requests.some(([method]) => method === 'cancelWarmJob'));
    await until('it is cancelled', () => agent.cancelled.length > 0);
    assert.deepEqual(agent.cancelled, ['watchWarmJob']);
  });

  it('waits for an agent that restarts', async () => {
    const everlasting = async function* () {
      for (;;) {
        yield sampleJob();
        await elapse(10, 'a pace');
      }
    };
    const first = await FakeAgent.start({ watchWarmJob: everlasting });
    let second: FakeAgent | undefined;
    const outcome = await runCommand(['job', 'watch', 'x', '--json', '--socket', first.socket], {
      onOutput: async () => {
        if (second !== undefined || first.killed) return;
        await first.kill();
        await elapse(300, 'no agent answers');
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
        await new Promise(() => undefined);
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
    // The command retries every half second, and each attempt takes real time.
    for (; !ended; await elapse(1, 'a try takes real time')) await clock.advance(500);
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
    [['warm', 'llama', '--ready-when', 'soon'], /Allowed choices are stored, memory/],
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
    assert.doesNotMatch(out, /IN MEMORY|STORED/, 'an agent that does not report it');
  });

  it('lists bytes in memory, and when all was in memory and stored', async () => {
    const coming = sampleJob({ name: 'coming', bytesInMemory: 5n << 30n });
    const stored = { storedAt: '2026-01-02T03:04:13Z', secondsToStored: 7.9 };
    listed = [coming, inMemory(sampleJob({ name: 'there' })), { ...inMemory(done), ...stored }];
    const { out } = await hearth(['jobs']);
    listed = [sampleJob(), done];
    const [head, ...rows] = out.split('\n');
    assert.match(head ?? '', /SIZE +IN MEMORY +STORED/);
    assert.match(rows[0] ?? '', /^coming .* 50% +6\.0 GiB +83% +512/);
    assert.match(rows[1] ?? '', /^there .* 50% +6\.0 GiB +after 3\.3 s +512/);
    assert.match(rows[2] ?? '', /100% +6\.0 GiB +after 3\.3 s +after 7\.9 s/);
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
