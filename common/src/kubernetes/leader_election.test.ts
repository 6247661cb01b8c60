import assert from 'node:assert/strict';
import { HearthError } from '../error.ts';
import { silentLogger } from '../logger.ts';
import { settle, TestClock } from '../testing/test_clock.ts';
import { kinds, type Lease } from './kinds.ts';
import { LeaderElection, type LeaderElectionOptions } from './leader_election.ts';
import { MemoryApi } from './testing/memory_api.ts';

/** A replica that records its terms. */
class Replica {
  readonly clock: TestClock;
  readonly election: LeaderElection;
  readonly stop = new AbortController();
  readonly leaders: string[] = [];
  leading = 0;
  terms = 0;
  ended: Promise<void>;

  constructor(api: MemoryApi, identity: string, clock: TestClock, lead?: (signal: AbortSignal) => Promise<void>) {
    this.clock = clock;
    const options: LeaderElectionOptions = {
      api,
      namespace: 'ns',
      name: 'lock',
      identity,
      logger: silentLogger,
      clock,
    };
    this.election = new LeaderElection({ ...options, onLeader: (leader) => this.leaders.push(leader) });
    const untilAborted = (signal: AbortSignal) =>
      new Promise<void>((resolve) => signal.addEventListener('abort', () => resolve()));
    this.ended = this.election.run(async (signal) => {
      this.leading += 1;
      this.terms += 1;
      try {
        await (lead ?? untilAborted)(signal);
      } finally {
        this.leading -= 1;
      }
    }, this.stop.signal);
  }
}

describe('LeaderElection', () => {
  let api: MemoryApi;
  let clock: TestClock;
  let replicas: Replica[];
  beforeEach(() => {
    api = new MemoryApi();
    clock = new TestClock();
    replicas = [];
  });
  afterEach(async () => {
    for (const { stop } of replicas) stop.abort();
    await clock.advance(20_000);
    for (const replica of replicas) if (replica.clock !== clock) await replica.clock.advance(20_000);
    await Promise.all(replicas.map(({ ended }) => ended));
  });
  const replica = (identity: string, own = clock, lead?: (signal: AbortSignal) => Promise<void>): Replica => {
    const made = new Replica(api, identity, own, lead);
    replicas.push(made);
    return made;
  };
  const lease = (): NonNullable<Lease['spec']> => (api.objects.get('leases/ns/lock') as Lease).spec ?? {};
  const away = new HearthError('Unavailable', 'the API is away');

  it('has one leader, whose lease has valid times', async () => {
    const a = replica('a');
    await settle();
    const b = replica('b');
    await clock.advance(60_000);
    assert.deepEqual([a.leading, b.leading], [1, 0]);
    assert.ok(a.election.isLeader && !b.election.isLeader);
    const { holderIdentity, leaseDurationSeconds, leaseTransitions, renewTime = '', acquireTime } = lease();
    assert.deepEqual([holderIdentity, leaseDurationSeconds, leaseTransitions], ['a', 15, 0]);
    assert.match(renewTime, /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}Z$/);
    assert.equal(acquireTime, '2026-01-01T00:00:00.000000Z');
    assert.notEqual(renewTime, acquireTime);
    assert.deepEqual(b.leaders, ['a']);
    const renewals = api.calls.filter((call) => call.startsWith('replace')).length;
    assert.ok(renewals >= 25 && renewals <= 30, `${renewals} renewals in a minute`);
  });

  it('releases the lease at a clean end, so that another replica leads at once', async () => {
    const a = replica('a');
    await settle();
    const b = replica('b');
    await clock.advance(5_000);
    a.stop.abort();
    await settle();
    await a.ended;
    assert.equal(lease().holderIdentity, '');
    await clock.advance(2_500);
    assert.deepEqual([a.leading, b.leading], [0, 1]);
    assert.equal(lease().leaseTransitions, 1);
  });

  it('succeeds a vanished leader when the lease is unchanged for its duration', async () => {
    const other = { holderIdentity: 'gone', leaseDurationSeconds: 15, renewTime: '2031-01-01T00:00:00.000000Z' };
    await api.create(kinds.Lease, { metadata: { name: 'lock', namespace: 'ns' }, spec: other });
    const b = replica('b');
    await clock.advance(14_900);
    assert.equal(b.leading, 0, 'seen for less than its duration, whatever its times say');
    await clock.advance(200);
    assert.equal(b.leading, 1);
  });

  it('stops leading before another may start when renewal fails, and competes again', async () => {
    const a = replica('a');
    const own = new TestClock();
    await clock.advance(5_000);
    api.fail = away;
    await clock.advance(10_100);
    assert.equal(a.leading, 0, 'ten seconds after the last renewal');
    assert.equal(a.election.isLeader, false);
    api.fail = undefined;
    const b = replica('b', own);
    await clock.advance(3_000);
    assert.equal(a.leading, 1, 'the lease is still its own');
    assert.equal(a.terms, 2);
    assert.equal(b.leading, 0);
  });

  it('stops in time even if a request never ends', async () => {
    const a = replica('a');
    await clock.advance(1_000);
    api.delay = () => new Promise(() => undefined);
    await clock.advance(8_900);
    assert.equal(a.leading, 1);
    await clock.advance(1_200);
    assert.equal(a.leading, 0);
    api.delay = async () => undefined;
  });

  it('does not lead after its process was stopped for longer than the lease', async () => {
    const own = new TestClock();
    const a = replica('a', own);
    await own.advance(1_000);
    const b = replica('b');
    // The process of a is stopped: time passes and its timers do not run.
    await clock.advance(20_000);
    assert.equal(b.leading, 1);
    own.stall(20_000);
    await own.advance(0);
    assert.equal(a.leading, 0, 'at the first moment that it runs');
    await own.advance(10_000);
    assert.deepEqual([a.leading, b.leading], [0, 1]);
  });

  it('notices at its next renewal that another replica has taken the lease', async () => {
    const a = replica('a');
    await clock.advance(1_000);
    const taken = api.objects.get('leases/ns/lock') as Lease;
    const { resourceVersion: _, ...metadata } = taken.metadata ?? {};
    await api.replace(kinds.Lease, { ...taken, metadata, spec: { ...taken.spec, holderIdentity: 'c' } });
    await clock.advance(2_500);
    assert.equal(a.leading, 0);
    assert.equal(lease().holderIdentity, 'c', 'and leaves it alone');
    assert.deepEqual(a.leaders, ['a', 'c']);
  });

  it('creates the lease again after its deletion', async () => {
    const a = replica('a');
    await clock.advance(1_000);
    await api.delete(kinds.Lease, 'lock', 'ns');
    await clock.advance(5_000);
    assert.equal(a.leading, 1);
    assert.equal(a.terms, 1);
    assert.equal(lease().holderIdentity, 'a');
  });

  it('waits for its own work to end before it competes again', async () => {
    const release = Promise.withResolvers<void>();
    const a = replica('a', clock, () => release.promise);
    await clock.advance(1_000);
    api.fail = away;
    await clock.advance(15_000);
    api.fail = undefined;
    await clock.advance(60_000);
    assert.equal(a.terms, 1);
    assert.equal(a.leading, 1, 'deaf to its signal');
    assert.equal(a.election.isLeader, false);
    release.resolve();
    await clock.advance(5_000);
    assert.equal(a.terms, 2);
    assert.ok(a.election.isLeader === false || a.leading <= 1);
  });

  it('ends when its work ends by itself, and competes again when the work fails', async () => {
    let failures = 2;
    const a = replica('a', clock, async () => {
      failures -= 1;
      if (failures >= 0) throw new Error('a bug');
    });
    await clock.advance(10_000);
    await a.ended;
    assert.equal(a.terms, 3);
    assert.equal(lease().holderIdentity, '');
  });

  it('refuses inconsistent times', () => {
    const options = { api, namespace: 'ns', name: 'lock', identity: 'a', logger: silentLogger };
    assert.throws(() => new LeaderElection({ ...options, leaseSeconds: 10, renewSeconds: 10 }), /must be longer/);
    assert.throws(() => new LeaderElection({ ...options, retrySeconds: 9 }), /must be longer/);
  });
});
