import assert from 'node:assert/strict';
import { HearthError } from '../error.ts';
import { silentLogger } from '../logger.ts';
import { TestClock } from '../testing/test_clock.ts';
import { EventRecorder } from './event_recorder.ts';
import { type CoreEvent, kinds } from './kinds.ts';
import { MemoryApi } from './testing/memory_api.ts';

describe('EventRecorder', () => {
  let api: MemoryApi;
  let clock: TestClock;
  let recorder: EventRecorder;
  const pod = { apiVersion: 'v1', kind: 'Pod', metadata: { name: 'web', namespace: 'ns', uid: 'u' } };
  beforeEach(() => {
    api = new MemoryApi();
    clock = new TestClock();
    const component = 'hearth-operator';
    recorder = new EventRecorder({ api, component, instance: 'pod-1', logger: silentLogger, clock });
  });
  const events = (): CoreEvent[] => [...api.objects.values()] as CoreEvent[];

  it('reports an event where kubectl looks for it', async () => {
    recorder.event(pod, 'Warning', 'Broken', 'It is broken. Mend it');
    recorder.eventFor(kinds.Node, { metadata: { name: 'node-1', uid: 'n' } }, 'Normal', 'Ready', 'It is ready');
    await recorder.flush();
    const [one, other] = events();
    assert.deepEqual(one?.involvedObject, { apiVersion: 'v1', kind: 'Pod', name: 'web', namespace: 'ns', uid: 'u' });
    const { metadata, type, reason, message, count, firstTimestamp, reportingComponent, reportingInstance } = one ?? {};
    assert.equal(metadata?.namespace, 'ns');
    assert.match(metadata?.name ?? '', /^web\.[0-9a-f]{16}$/);
    assert.deepEqual([type, reason, message, count], ['Warning', 'Broken', 'It is broken. Mend it', 1]);
    assert.equal(firstTimestamp, '2026-01-01T00:00:00Z');
    assert.deepEqual([reportingComponent, reportingInstance], ['hearth-operator', 'pod-1']);
    assert.equal(other?.metadata?.namespace, 'default', 'objects of the cluster');
    assert.deepEqual(other?.involvedObject, { apiVersion: 'v1', kind: 'Node', name: 'node-1', uid: 'n' });
  });

  it('counts equal reasons of an object within ten minutes, with the latest message', async () => {
    for (let time = 1; time <= 5; ++time) {
      recorder.event(pod, 'Warning', 'Broken', `for the ${time}. time`);
      await clock.advance(60_000);
    }
    recorder.event(pod, 'Warning', 'Other', 'else');
    await recorder.flush();
    const [broken, ...others] = events();
    assert.equal(others.length, 1);
    assert.deepEqual([broken?.count, broken?.message], [5, 'for the 5. time']);
    assert.equal(broken?.firstTimestamp, '2026-01-01T00:00:00Z');
    assert.equal(broken?.lastTimestamp, '2026-01-01T00:04:00Z');
    await clock.advance(600_001);
    recorder.event(pod, 'Warning', 'Broken', 'much later');
    await recorder.flush();
    assert.equal(events().filter(({ reason }) => reason === 'Broken').length, 2);
  });

  it("creates valid names, wherever the object's name is truncated", async () => {
    for (const end of ['-', '.', 'a']) {
      const name = `${'x'.repeat(199)}${end}${'y'.repeat(40)}`;
      recorder.event({ ...pod, metadata: { ...pod.metadata, name } }, 'Warning', 'Broken', 'It is broken');
      await recorder.flush();
    }
    assert.equal(events().length, 3);
    for (const { metadata } of events()) {
      assert.match(metadata?.name ?? '', /^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$/);
    }
  });

  it('truncates long messages, in new and updated events', async () => {
    for (const words of ['first', 'second']) {
      recorder.event(pod, 'Warning', 'Broken', words.repeat(1_000));
      await recorder.flush();
      assert.equal(events()[0]?.message, words.repeat(1_000).slice(0, 1_024));
    }
  });

  it('merges events that come faster than they can be sent', async () => {
    const release = Promise.withResolvers<void>();
    api.delay = () => release.promise;
    for (let time = 0; time < 1_000; ++time) recorder.event(pod, 'Warning', 'Broken', 'again');
    release.resolve();
    await recorder.flush();
    assert.ok(api.calls.length <= 2, `${api.calls.length} requests`);
    assert.equal(events()[0]?.count, 1_000);
  });

  it('limits the rate for one object without losing counts', async () => {
    for (let time = 0; time < 200; ++time) {
      recorder.event(pod, 'Warning', 'Broken', 'again');
      await recorder.flush();
      await clock.advance(1_000);
    }
    assert.ok(api.calls.length <= 27, `${api.calls.length} requests`);
    await clock.advance(300_000);
    await recorder.flush();
    assert.equal(events()[0]?.count, 200);
  });

  it('limits the rate over all objects', async () => {
    for (let index = 0; index < 300; ++index) {
      recorder.event(
        { ...pod, metadata: { name: `p-${index}`, namespace: 'ns', uid: `u-${index}` } },
        'Normal',
        'Seen',
        's',
      );
    }
    await recorder.flush();
    assert.equal(events().length, 50);
    await clock.advance(10_000);
    assert.ok(Math.abs(events().length - 100) <= 1, `${events().length}`);
    await clock.advance(100_000);
    assert.equal(events().length, 300);
  });

  it('retries while the API is unreachable, then gives up; never throws', async () => {
    api.fail = new HearthError('Unavailable', 'away');
    recorder.event(pod, 'Warning', 'Broken', 'once');
    await clock.advance(1_000);
    api.fail = undefined;
    await clock.advance(10_000);
    assert.equal(events().length, 1);
    api.fail = new HearthError('PermissionDenied', 'the namespace is being terminated');
    recorder.event(pod, 'Warning', 'Other', 'once');
    await clock.advance(100_000);
    api.fail = undefined;
    await clock.advance(100_000);
    assert.equal(events().length, 1);
    assert.equal(api.calls.length, 3);
    recorder.event({}, 'Normal', 'Odd', 'an object without a name');
  });

  it('creates an event again that the API server has deleted', async () => {
    recorder.event(pod, 'Warning', 'Broken', 'once');
    await recorder.flush();
    api.objects.clear();
    recorder.event(pod, 'Warning', 'Broken', 'twice');
    await recorder.flush();
    assert.deepEqual(
      events().map(({ count }) => count),
      [2],
    );
  });

  it('sends nothing after its end, not even pending events', async () => {
    for (let number = 0; number < 100; ++number) recorder.event(pod, 'Normal', `Reason${number}`, 'often');
    await recorder.close();
    const told = events().length;
    assert.ok(told > 0 && told < 100, `${told}`);
    recorder.event(pod, 'Warning', 'Late', 'after the end');
    await clock.advance(600_000);
    assert.equal(events().length, told);
  });

  it('waits for a request in progress, but not forever', async () => {
    api.delay = () => new Promise(() => undefined);
    recorder.event(pod, 'Warning', 'Broken', 'once');
    const flushed = recorder.flush(500);
    await clock.advance(500);
    await flushed;
  });
});
