import assert from 'node:assert/strict';
import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { join } from 'node:path';
import { HearthError, silentLogger } from '@hearth/common';
import { until } from '@hearth/common/testing';
import { Session } from '../records/index.ts';
import { openStore, type Store } from '../store/index.ts';
import { etcdFixture, type StoreFixture, sqliteFixture } from '../store/testing/fixtures.ts';
import { WatchLog } from '../store/testing/watch_log.ts';
import { CutStore } from '../testing/cut_store.ts';
import { Membership } from './membership.ts';

/** Exceeds the time that a busy machine may delay an agent between two renewals. */
const leaseSeconds = 10;
/** Lease of an agent whose lease must expire during the test. */
const shortLease = 1;
/** Lease of an agent whose expiry no test awaits. */
const notWithinTest = 1_800;
const longTakeoverMs = 60_000;

interface TestMember {
  membership: Membership;
  session: Session;
  store: CutStore;
}

/** Membership over each kind of store. */
function suite(fixture: StoreFixture): void {
  describe(`membership: ${fixture.name}`, () => {
    let address = '';
    let store: Store;
    const members: TestMember[] = [];
    const children: ChildProcess[] = [];

    const add = (
      node: string,
      incarnation: string,
      installation = '',
      lease = leaseSeconds,
      takeoverMs = longTakeoverMs,
    ): TestMember => {
      const cut = new CutStore(store);
      const session = new Session(cut, silentLogger, lease);
      const self = { node, incarnation, installation, wire: [{ host: '127.0.0.1', port: 7527 }], ready: true };
      const membership = new Membership({ store: cut, session, logger: silentLogger, self, takeoverMs });
      const member = { membership, session, store: cut };
      members.push(member);
      return member;
    };
    const names = (member: TestMember): string => [...member.membership.names()].join();

    before(async function () {
      const missing = await fixture.start();
      if (missing === undefined) return;
      console.log(`      skipped: ${missing}`);
      this.skip();
    });
    after(() => fixture.stop());
    beforeEach(async () => {
      address = fixture.freshAddress();
      store = await openStore(address);
    });
    afterEach(async () => {
      for (const child of children.splice(0)) child.kill('SIGKILL');
      await Promise.all(
        members.splice(0).map(async ({ membership, session }) => {
          await membership.close();
          await session.close();
        }),
      );
      await store.close();
    });

    it('publishes the place of an agent until it changes, also after a lost lease', async () => {
      const [a, b] = [add('a', '1'), add('b', '1')];
      await Promise.all([a, b].map((member) => member.membership.joined()));
      const place = (): string => {
        const seen = b.membership.peers().find((peer) => peer.node === 'a');
        return `${seen?.zone}/${seen?.rack}`;
      };
      a.membership.setPlace('z1', 'r1');
      await until('the place', () => place() === 'z1/r1');
      const before = await store.get('nodes/a');
      await store.delete('nodes/a');
      await until('the record again', async () => {
        const after = await store.get('nodes/a');
        return (
          after !== undefined && after.createRevision !== before?.createRevision && /"zone":"z1"/.test(after.value)
        );
      });
      a.membership.setPlace('z2', '');
      await until('the other place', () => place() === 'z2/');
      assert.throws(() => a.membership.setPlace('z'.repeat(2000), ''), { code: 'InvalidArgument' });
    });

    it('shows every agent and its record to every other agent', async () => {
      const [a, b, c] = [add('a', '1'), add('b', '1'), add('c', '1')];
      await Promise.all([a, b, c].map((member) => member.membership.joined()));
      for (const member of [a, b, c]) await until('all three', () => names(member) === 'a,b,c');
      assert.deepEqual(a.membership.standing, { kind: 'member' });
      let changes = 0;
      a.membership.onChange(() => changes++);
      b.membership.setReady(false, 'its disk is full');
      await until('the state of b', () => a.membership.ready().join() === 'a,c');
      assert.equal(a.membership.all().find((member) => member.node === 'b')?.reason, 'its disk is full');
      assert.equal(changes, 1);
      assert.deepEqual(a.membership.cluster()[1], {
        node: 'b',
        incarnation: '1',
        addresses: [{ host: '127.0.0.1', port: 7527 }],
        zone: '',
        rack: '',
        ready: false,
      });
      await c.membership.close();
      await until('c to leave', () => names(a) === 'a,b');
      assert.deepEqual(
        a.membership.peers().map((peer) => peer.node),
        ['b'],
      );
    });

    it('removes a dead agent, and admits its successor once the lease has expired', async () => {
      const [a, b] = [add('a', '1'), add('b', '1', '', shortLease)];
      await Promise.all([a.membership.joined(), b.membership.joined()]);
      await until('both', () => names(a) === 'a,b');
      b.store.cut();
      const next = add('b', '2');
      assert.equal(next.membership.standing.kind, 'degraded');
      await next.membership.joined();
      await until('the successor', () => a.membership.peers()[0]?.incarnation === '2');
    });

    it('takes over at once from an earlier start of the same installation', async () => {
      const first = add('a', '1', 'disk-1', notWithinTest);
      await first.membership.joined();
      first.store.cut();
      const second = add('a', '2', 'disk-1');
      await second.membership.joined();
    });

    it('is a member without a cache, and takes over its earlier record once it has one', async () => {
      const first = add('a', '1', 'disk-1', notWithinTest);
      const other = add('b', '1');
      await Promise.all([first, other].map(({ membership }) => membership.joined()));
      first.store.cut();
      const second = add('a', '2', '');
      second.membership.setReady(false, 'the disk is read-only');
      second.membership.setCache({ wire: [], installation: '' });
      await until('its place to be taken', () => second.membership.standing.kind === 'degraded');
      second.membership.setCache({ wire: [{ host: '127.0.0.1', port: 7528 }], installation: 'disk-1' });
      await second.membership.joined();
      await until('its new address', () => other.membership.cluster()[0]?.addresses[0]?.port === 7528);

      second.membership.setCache({ wire: [], installation: '' });
      await until('no cache', () => !other.membership.caching().has('a'));
      assert.equal(names(other), 'a,b');
      assert.deepEqual(
        other.membership.cluster().map(({ node }) => node),
        ['b'],
      );
      assert.equal(other.membership.all()[0]?.reason, 'the disk is read-only');
    });

    it('refuses a second agent of the same name while the first is alive', async () => {
      const first = add('a', '1', '', notWithinTest);
      await first.membership.joined();
      const second = add('a', '2', '', leaseSeconds, 500);
      await assert.rejects(second.membership.joined(), (thrown) => {
        assert.ok(thrown instanceof HearthError);
        assert.equal(thrown.code, 'InUse');
        assert.match(thrown.message, /running as 'a' at 127\.0\.0\.1:7527; stop it/);
        return true;
      });
      assert.equal(second.membership.standing.kind, 'degraded');
      assert.equal(first.membership.standing.kind, 'member');
      await first.membership.close();
      await until('the name to be free', () => second.membership.standing.kind === 'member');
    });

    it('registers again after losing its lease and record', async () => {
      const [a, b] = [add('a', '1', '', shortLease), add('b', '1')];
      await Promise.all([a.membership.joined(), b.membership.joined()]);
      const log = new WatchLog(store, 'nodes/a', (await store.revision()) + 1);
      await store.revokeLease(await a.session.lease());
      // The agent may be back before the test has looked.
      await until('a to be gone', () => log.words.some((word) => word.startsWith('-')));
      await until('a to be back', () => log.words.at(-1)?.startsWith('+') === true && names(b) === 'a,b');
      await log.stop();
      await store.delete('nodes/a');
      await until('a to be back again', async () => (await store.get('nodes/a')) !== undefined);
      await until('a to be content', () => a.membership.standing.kind === 'member');
    });

    it('recovers after the process was suspended for longer than its lease', async () => {
      const a = add('a', '1');
      await a.membership.joined();
      const program = join(import.meta.dirname, 'testing/member.ts');
      const child = spawn(process.execPath, [program, address, 'b'], { stdio: ['ignore', 'ignore', 'inherit'] });
      children.push(child);
      await until('b', () => names(a) === 'a,b');
      child.kill('SIGSTOP');
      await until('b to be gone', () => names(a) === 'a');
      child.kill('SIGCONT');
      await until('b to be back', () => names(a) === 'a,b');
      const ended = once(child, 'exit');
      child.kill('SIGKILL');
      await ended;
    });

    it('ignores unreadable records and unknown fields', async () => {
      await store.put('nodes/broken', '{');
      await store.put('nodes/wrong', JSON.stringify({ node: 'wrong', ready: 'yes' }));
      await store.put('nodes/other', JSON.stringify({ node: 'liar', incarnation: '1', wire: [], ready: true }));
      await store.put(
        'nodes/newer',
        JSON.stringify({ node: 'newer', incarnation: '1', wire: [], ready: true, colour: 7 }),
      );
      const a = add('a', '1');
      await a.membership.joined();
      assert.equal(names(a), 'a,newer');
      // The agent's release writes no version of its control API.
      const { apiVersion, apiFeatures } = a.membership.all()[1] ?? {};
      assert.deepEqual([apiVersion, apiFeatures], [1, []]);
    });

    it('reads everything again after the store compacted its history', async () => {
      const a = add('a', '1');
      await a.membership.joined();
      for (let count = 0; count < 5; count++) await store.put('elsewhere', String(count));
      await store.compact(await store.revision());
      await fixture.restart();
      const b = add('b', '1');
      await b.membership.joined();
      await until('b', () => names(a) === 'a,b');
    });

    it('keeps the last view during an outage of the store, and reports the outage', async () => {
      const [a, b] = [add('a', '1', '', shortLease), add('b', '1')];
      await Promise.all([a.membership.joined(), b.membership.joined()]);
      await until('both', () => names(a) === 'a,b');
      a.store.cut();
      await until('the trouble of a', () => a.membership.standing.kind === 'degraded');
      assert.equal(names(a), 'a,b', 'the last known view stands');
    });
  });
}

describe('Membership', () => {
  it('names the fault of an invalid name', async () => {
    const store = await openStore('etcd://127.0.0.1:1');
    const session = new Session(store, silentLogger, leaseSeconds);
    const self = { node: 'a/b', incarnation: '1', wire: [], ready: true };
    assert.throws(
      () => new Membership({ store, session, logger: silentLogger, self }),
      (thrown) =>
        thrown instanceof HearthError && thrown.code === 'InvalidArgument' && /hyphens only/.test(thrown.message),
    );
    await session.close();
    await store.close();
  });

  it('waits without failing while the store is unreachable', async () => {
    const store = await openStore('etcd://127.0.0.1:1');
    const session = new Session(store, silentLogger, leaseSeconds);
    const self = { node: 'a', incarnation: '1', wire: [], ready: true };
    const membership = new Membership({ store, session, logger: silentLogger, self });
    await assert.rejects(
      membership.joined(AbortSignal.timeout(200)),
      (thrown) => HearthError.from(thrown).code === 'DeadlineExceeded',
    );
    assert.equal(membership.standing.kind, 'degraded');
    assert.deepEqual([...membership.names()], ['a']);
    await store.close();
    await membership.close();
    await session.close();
  });
});

suite(sqliteFixture());
suite(etcdFixture());
