import assert from 'node:assert/strict';
import { HearthError, silentLogger } from '@hearth/common';
import { TemporaryFolder, TestClock, until } from '@hearth/common/testing';
import type { NodeAgents } from '../agent/index.ts';
import { reconcileRecords, recordId } from '../records/index.ts';
import { Crash, CrashPoint } from '../testing/crash.ts';
import { FakeMounts } from '../testing/fake_mounts.ts';
import { manifest } from '../testing/samples.ts';
import { Publications } from './publications.ts';
import { PublishedRecords } from './published_records.ts';
import { Rebinding } from './rebinding.ts';

describe('rebinding', () => {
  let folder: TemporaryFolder;
  let mounts: FakeMounts;
  let records: PublishedRecords;
  let publications: Publications;
  let warnings: unknown[];
  let clock: TestClock;
  beforeEach(() => {
    folder = new TemporaryFolder('csi');
    mounts = new FakeMounts();
    records = new PublishedRecords(folder.path, silentLogger);
    warnings = [];
    clock = new TestClock();
    const logger = { ...silentLogger, warn: (_: string, fields?: unknown) => void warnings.push(fields) };
    const agents = {} as NodeAgents;
    publications = new Publications({ agents, mounts, records, logger });
  });
  afterEach(() => folder.remove());

  const agentMount = (digit: string) => folder.file('c/mounts', manifest(digit), 'fuse-team.model');
  const rebinding = () =>
    new Rebinding({
      stateDirectory: folder.path,
      records,
      mounts,
      rebind: (...mount) => publications.rebind(...mount),
      everyMs: 3_000,
      clock,
      logger: { ...silentLogger, warn: (message: string) => void warnings.push(message) },
    });
  /** As publishing leaves it. */
  async function publish(target: string, digit: string, dataPath = 'fuse', options: string[] = []): Promise<void> {
    await records.write('c', {
      id: recordId(target),
      volume: 'v',
      target,
      dataset: 'team.model',
      manifest: manifest(digit),
      dataPath,
      bytes: 1n,
      files: 1n,
      pod: { namespace: 'team', name: 'reader', uid: 'u' },
      publishedAt: '2026-11-21T00:00:00.000Z',
    });
    mounts.folders.add(target);
    mounts.add(target, '0:50', ['ro', 'nosuid', 'nodev', ...options], ['ro']);
  }
  const devices = (target: string) =>
    mounts.entries.filter((entry) => entry.mountPoint === target).map((entry) => entry.device);

  it('binds the new mount of an agent over the dead one in each pod, as restricted as before', async () => {
    await publish('/one', 'a');
    await publish('/two', 'a', 'fuse', ['noexec']);
    mounts.add(agentMount('a'), '0:51', ['rw'], ['ro']);
    await rebinding().check();
    assert.deepEqual(devices('/one'), ['0:50', '0:51'], 'the dead one stays below');
    assert.deepEqual(devices('/two'), ['0:50', '0:51']);
    assert.deepEqual(mounts.entries.at(-1)?.options, ['ro', 'nosuid', 'nodev', 'noexec']);
    const pod = { namespace: 'team', name: 'reader', uid: 'u' };
    assert.deepEqual(
      warnings.map((fields) => (fields as { pod: unknown }).pod),
      [pod, pod],
    );
    assert.match((await records.find('/one'))?.reboundAt ?? '', /^20/);
    await rebinding().check();
    assert.equal(devices('/one').length, 2, 'once');
  });

  it('names every pod, and restricts its mount, where mounts that were bound from one share what comes over them', async () => {
    const targets = ['/one', '/two', '/three'];
    for (const target of targets) await publish(target, 'a', 'fuse', ['noexec']);
    mounts.add(agentMount('a'), '0:51', ['rw'], ['ro']);
    mounts.bindOver = async (source, _target, restrictions) => {
      for (const target of targets) await mounts.bind(source, target, restrictions);
    };
    await rebinding().check();
    for (const target of targets) {
      assert.deepEqual(devices(target), ['0:50', '0:51'], target);
      assert.equal((await records.find(target))?.reboundTo, '0:51', target);
      const present = mounts.entries.findLast(({ mountPoint }) => mountPoint === target);
      assert.deepEqual(present?.options, ['ro', 'nosuid', 'nodev', 'noexec'], target);
    }
    assert.equal(warnings.length, 3);
    await rebinding().check();
    assert.equal(warnings.length, 3, 'once');
  });

  it('binds again what the end of another pod has unmounted here, as what the release before had bound has in common', async () => {
    const targets = ['/one', '/two'];
    for (const target of targets) await publish(target, 'a', 'fuse', ['noexec']);
    mounts.add(agentMount('a'), '0:51', ['rw'], ['ro']);
    const looking = rebinding();
    await looking.check();
    await looking.check();
    const { unmount } = mounts;
    mounts.unmount = async (target) => {
      mounts.unmount = unmount;
      for (const each of targets) await mounts.unmount(each);
      assert.equal(target, '/one');
    };
    await publications.unpublish('v', '/one');
    assert.deepEqual(devices('/two'), ['0:50'], 'dead again');
    await looking.check();
    assert.deepEqual(devices('/two'), ['0:50', '0:51']);
    assert.deepEqual(devices('/one'), []);
  });

  it('leaves what is alive, what is not there, views, and volumes whose agent has no mount yet', async () => {
    await publish('/alive', 'a');
    mounts.add(agentMount('a'), '0:50', ['rw'], ['ro']);
    await publish('/waits', 'b');
    await publish('/earlier', 'e');
    mounts.add(folder.file('c/mounts', manifest('e'), 'fuse'), '0:50', ['rw'], ['ro']);
    mounts.add(agentMount('e'), '0:54', ['rw'], ['ro']);
    await publish('/view', 'c', 'view');
    mounts.add(agentMount('c'), '0:52', ['rw'], ['ro']);
    await publish('/gone', 'd');
    mounts.entries.pop();
    mounts.add(agentMount('d'), '0:53', ['rw'], ['ro']);
    const before = mounts.entries.length;
    await rebinding().check();
    assert.equal(mounts.entries.length, before);
  });

  const pileUp = (target: string) => {
    const options = mounts.entries.findLast(({ mountPoint }) => mountPoint === target)?.options;
    for (let layer = 0; layer < 14; layer++) mounts.add(target, `0:${layer}`, options, ['ro']);
  };

  it('leaves of mounts that have piled up the lowest, over which containers see the new one', async () => {
    await publish('/one', 'a');
    pileUp('/one');
    mounts.add(agentMount('a'), '0:51', ['rw'], ['ro']);
    await rebinding().check();
    assert.deepEqual(devices('/one'), ['0:50', '0:51']);
  });

  it('binds again what a bind that failed left, wherever mounts have piled up', async () => {
    await publish('/one', 'a');
    pileUp('/one');
    mounts.add(agentMount('a'), '0:51', ['rw'], ['ro']);
    const { bind } = mounts;
    mounts.bind = async () => {
      throw new HearthError('IoError', 'mount failed');
    };
    const looking = rebinding();
    await looking.check();
    assert.notEqual(devices('/one').length, 0, 'the pod never has the empty folder below');
    mounts.bind = bind;
    await looking.check();
    assert.equal(devices('/one').at(-1), '0:51');
  });

  for (const piled of [false, true]) {
    it(`ends at the same after a death at any step${piled ? ', with mounts piled up' : ''}`, async () => {
      let step = 0;
      for (let finished = false; !finished; step++) {
        for (const when of ['before', 'after'] as const) {
          const target = `/${when}/${step}`;
          await publish(target, 'a', 'fuse', ['noexec']);
          if (piled) pileUp(target);
          const earlier = mounts.entries.findIndex(({ mountPoint }) => mountPoint === agentMount('a'));
          if (earlier >= 0) mounts.entries.splice(earlier, 1);
          mounts.add(agentMount('a'), `1:${step}${when.length}`, ['rw'], ['ro']);
          const crash = new CrashPoint(step, when);
          const dying = new Publications({
            agents: {} as NodeAgents,
            mounts: crash.wrap(mounts),
            records: crash.wrap(records),
            logger: silentLogger,
          });
          await dying
            .rebind('c', target, folder.file('c/mounts'), new Date())
            .catch((thrown) => assert.ok(thrown instanceof Crash));
          finished = !crash.reached;
          assert.notEqual(devices(target).length, 0, `a mount is left ${when} step ${step}`);
          await reconcileRecords(records, mounts, silentLogger);
          await rebinding().check();
          const present = mounts.entries.findLast(({ mountPoint }) => mountPoint === target);
          assert.equal(present?.device, `1:${step}${when.length}`, `bound, though dead ${when} step ${step}`);
          assert.deepEqual(present?.options, ['ro', 'nosuid', 'nodev', 'noexec'], `dead ${when} step ${step}`);
          assert.ok((await records.find(target))?.reboundAt, `told, though dead ${when} step ${step}`);
          await publications.unpublish('v', target);
        }
      }
      assert.ok(step > 5);
    });
  }

  it('reads the table of mounts once a look, and once more for each volume that it has to bind', async () => {
    for (let volume = 0; volume < 100; volume++) await publish(`/alive/${volume}`, 'a');
    mounts.add(agentMount('a'), '0:50', ['rw'], ['ro']);
    await publish('/dead', 'b');
    mounts.add(agentMount('b'), '0:51', ['rw'], ['ro']);
    mounts.bindOver = async () => {
      throw new HearthError('IoError', 'mount failed');
    };
    let readings = 0;
    const { table } = mounts;
    mounts.table = () => {
      readings++;
      return table.call(mounts);
    };
    await rebinding().check();
    assert.equal(readings, 2);
  });

  it('remembers each rebinding once, however often it is tried', async () => {
    await publish('/one', 'a');
    await publish('/two', 'a');
    const { bindOver } = mounts;
    const times = async (target: string) => {
      const record = await records.find(target);
      return [...(record?.reboundBefore ?? []), record?.reboundAt];
    };
    const looking = rebinding();
    for (let death = 1; death <= 3; death++) {
      const earlier = mounts.entries.findIndex(({ mountPoint }) => mountPoint === agentMount('a'));
      if (earlier >= 0) mounts.entries.splice(earlier, 1);
      mounts.add(agentMount('a'), `1:${death}`, ['rw'], ['ro']);
      mounts.bindOver = async () => {
        throw new HearthError('IoError', 'mount failed');
      };
      await looking.check();
      const noted = await times('/one');
      await clock.advance(1);
      await looking.check();
      mounts.bindOver = bindOver;
      await looking.check();
      assert.deepEqual(await times('/one'), noted);
      assert.deepEqual(await times('/two'), noted, 'of what died together, one time');
      assert.equal(new Set(noted).size, death);
    }
  });

  it('is looked for every few seconds, and not after it ended', async () => {
    await publish('/one', 'a');
    mounts.add(agentMount('a'), '0:51', ['rw'], ['ro']);
    const looking = rebinding();
    looking.start();
    await clock.advance(2_999);
    assert.deepEqual(devices('/one'), ['0:50']);
    await clock.advance(1);
    await until('it is bound again', () => devices('/one').length === 2);
    await looking.close();
    assert.equal(clock.next, undefined);
  });

  it('reports once what cannot be bound, and tries it again', async () => {
    await publish('/one', 'a');
    mounts.add(agentMount('a'), '0:51', ['rw'], ['ro']);
    const { bindOver } = mounts;
    mounts.bindOver = async () => {
      throw new HearthError('IoError', 'mount failed');
    };
    const looking = rebinding();
    await looking.check();
    await looking.check();
    assert.equal(warnings.length, 1);
    mounts.bindOver = bindOver;
    await looking.check();
    assert.deepEqual(devices('/one'), ['0:50', '0:51']);
  });
});
