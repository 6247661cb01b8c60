import assert from 'node:assert/strict';
import { mkdirSync } from 'node:fs';
import { createServer, type Server } from 'node:net';
import { HearthError, silentLogger } from '@hearth/common';
import { TemporaryFolder, TestClock, until } from '@hearth/common/testing';
import type { NodeAgents } from '../agent/index.ts';
import { isBarrier } from '../mounts/index.ts';
import { recordId } from '../records/index.ts';
import { Crash, CrashPoint } from '../testing/crash.ts';
import { FakeMounts } from '../testing/fake_mounts.ts';
import { manifest } from '../testing/samples.ts';
import { LostMounts } from './lost_mounts.ts';
import { Publications } from './publications.ts';
import { PublishedRecords } from './published_records.ts';
import { Rebinding } from './rebinding.ts';

describe('mounts of pods whose agent and holder are gone', () => {
  let folder: TemporaryFolder;
  let mounts: FakeMounts;
  let records: PublishedRecords;
  let publications: Publications;
  let warnings: string[];
  let clock: TestClock;
  let servers: Server[];
  beforeEach(() => {
    folder = new TemporaryFolder('csi');
    mkdirSync(folder.file('c/run'), { recursive: true });
    mounts = new FakeMounts();
    records = new PublishedRecords(folder.path, silentLogger);
    warnings = [];
    clock = new TestClock();
    servers = [];
    const logger = { ...silentLogger, warn: (message: string) => void warnings.push(message) };
    publications = new Publications({ agents: {} as NodeAgents, mounts, records, logger });
  });
  afterEach(async () => {
    for (const server of servers) server.close();
    await folder.remove();
  });

  const agentMount = () => folder.file('c/mounts', manifest('a'), 'fuse-team.model');
  const shared = () => ({ stateDirectory: folder.path, records, mounts, everyMs: 250, clock });
  const lostMounts = () =>
    new LostMounts({
      ...shared(),
      bar: (...mount) => publications.bar(...mount),
      logger: { ...silentLogger, warn: (message: string) => void warnings.push(message) },
    });
  const rebinding = () =>
    new Rebinding({ ...shared(), rebind: (...mount) => publications.rebind(...mount), logger: silentLogger });

  /** As publishing leaves it, with the mount of the agent that it was bound from. */
  async function publish(target: string, dataPath = 'fuse', device = '0:50'): Promise<void> {
    const agents = mounts.entries.some(({ mountPoint }) => mountPoint === agentMount());
    if (!agents) mounts.add(agentMount(), device, ['rw'], ['ro']);
    await records.write('c', {
      id: recordId(target),
      volume: 'v',
      target,
      dataset: 'team.model',
      manifest: manifest('a'),
      dataPath,
      bytes: 1n,
      files: 1n,
      pod: { namespace: 'team', name: 'reader', uid: 'u' },
      publishedAt: '2026-11-21T00:00:00.000Z',
    });
    mounts.folders.add(target);
    mounts.add(target, device, ['ro', 'nosuid', 'nodev'], ['ro']);
  }
  async function listen(name: string): Promise<void> {
    const server = createServer((socket) => socket.destroy());
    servers.push(server);
    await new Promise<void>((resolve) => server.listen(folder.file('c/run', name), resolve));
  }
  const present = (target: string) => mounts.entries.findLast(({ mountPoint }) => mountPoint === target);
  const barred = (target: string) => {
    const entry = present(target);
    return entry !== undefined && isBarrier(entry);
  };

  it('are barred once, and the records say since when', async () => {
    await publish('/one');
    await publish('/two');
    await publish('/view', 'view', '0:60');
    mounts.dead.add('0:50');
    const looking = lostMounts();
    for (let look = 0; look < 3; look++) await looking.check();
    assert.deepEqual([barred('/one'), barred('/two'), barred('/view')], [true, true, false]);
    assert.equal(mounts.entries.filter(isBarrier).length, 2);
    const lost = (await records.find('/one'))?.lostAt;
    assert.equal(lost, clock.date().toISOString());
    assert.equal(warnings.length, 2, warnings.join());
  });

  for (const [what, sockets] of [
    ['the holder', ['holder.sock']],
    ['the agent', ['agent.sock']],
  ] as const) {
    it(`are asked nothing while ${what} is there`, async () => {
      await publish('/one');
      mounts.dead.add('0:50');
      mounts.isDead = () => assert.fail('it would hang');
      for (const socket of sockets) await listen(socket);
      await lostMounts().check();
      assert.equal(barred('/one'), false);
      assert.deepEqual(warnings, []);
    });
  }

  it('are left while they live, and looked at again', async () => {
    await publish('/one');
    const looking = lostMounts();
    await looking.check();
    assert.equal(barred('/one'), false);
    mounts.dead.add('0:50');
    await looking.check();
    assert.equal(barred('/one'), true);
  });

  it('are bound again over the barrier by the mount of the next agent, and not by the dead one', async () => {
    await publish('/one');
    mounts.dead.add('0:50');
    await lostMounts().check();
    await rebinding().check();
    assert.equal(barred('/one'), true, 'the dead mount of the agent is still in the table');
    mounts.entries.splice(
      mounts.entries.findIndex(({ mountPoint }) => mountPoint === agentMount()),
      1,
    );
    mounts.add(agentMount(), '0:51', ['rw'], ['ro']);
    await rebinding().check();
    assert.deepEqual([present('/one')?.device, present('/one')?.options], ['0:51', ['ro', 'nosuid', 'nodev']]);
    const record = await records.find('/one');
    assert.equal(record?.lostAt, undefined);
    assert.match(record?.reboundAt ?? '', /^20/);
    // And once more.
    mounts.dead.add('0:51');
    await lostMounts().check();
    assert.equal(barred('/one'), true);
    await publications.unpublish('v', '/one');
    assert.equal(present('/one'), undefined, 'nothing is left of it');
    assert.equal(await records.find('/one'), undefined);
  });

  it('are not given to a container that the kubelet publishes for meanwhile', async () => {
    await publish('/one');
    mounts.dead.add('0:50');
    await lostMounts().check();
    const again = publications.publish(
      {
        volume: 'v',
        target: '/one',
        choice: { namespace: 'team', dataset: 'model', cluster: 'c', revision: '' },
        usage: { singleTarget: false, noexec: false },
        readOnly: true,
        pod: undefined,
      },
      new AbortController().signal,
    );
    await assert.rejects(again, { status: 'UNAVAILABLE', message: /died with the agent and the mount holder/ });
    assert.equal(barred('/one'), true);
  });

  it('are barred after a death at any step', async () => {
    let finished = false;
    for (let step = 0; !finished; step++) {
      for (const when of ['before', 'after'] as const) {
        const target = `/${when}/${step}`;
        await publish(target);
        mounts.dead.add('0:50');
        const crash = new CrashPoint(step, when);
        const dying = new Publications({
          agents: {} as NodeAgents,
          mounts: crash.wrap(mounts),
          records: crash.wrap(records),
          logger: silentLogger,
        });
        await dying.bar('c', target, '0:50', new Date()).catch((thrown) => assert.ok(thrown instanceof Crash));
        finished = !crash.reached;
        await lostMounts().check();
        assert.equal(barred(target), true, `dead ${when} step ${step}`);
        const layers = mounts.entries.filter(({ mountPoint }) => mountPoint === target);
        assert.equal(layers.length, 2, `once, though dead ${when} step ${step}`);
        assert.ok((await records.find(target))?.lostAt);
      }
    }
  });

  it('are barred by a later look when that failed, which is logged once', async () => {
    await publish('/one');
    mounts.dead.add('0:50');
    const { bar } = mounts;
    mounts.bar = async () => {
      throw new HearthError('IoError', 'mount failed');
    };
    const looking = lostMounts();
    for (let look = 0; look < 2; look++) await looking.check();
    assert.deepEqual(warnings, ['a dead mount of a volume is not barred yet']);
    mounts.bar = bar;
    looking.start();
    await clock.advance(250);
    await until('it is barred', () => barred('/one'));
    await looking.close();
    assert.equal(clock.next, undefined);
  });
});
