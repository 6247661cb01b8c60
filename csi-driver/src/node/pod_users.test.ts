import assert from 'node:assert/strict';
import { mkdirSync, writeFileSync } from 'node:fs';
import { HearthError, silentLogger } from '@hearth/common';
import { TemporaryFolder, TestClock, until } from '@hearth/common/testing';
import type { NodeAgent, NodeAgents } from '../agent/index.ts';
import { mountAt } from '../mounts/index.ts';
import { reconcileRecords } from '../records/index.ts';
import { CrashPoint } from '../testing/crash.ts';
import { FakeMounts } from '../testing/fake_mounts.ts';
import { manifest, published } from '../testing/samples.ts';
import { PodUsers } from './pod_users.ts';
import { type Publication, Publications } from './publications.ts';
import { PublishedRecords } from './published_records.ts';
import { Rebinding } from './rebinding.ts';

const signal = new AbortController().signal;

describe('pods with a user namespace', () => {
  let folder: TemporaryFolder;
  let mounts: FakeMounts;
  let records: PublishedRecords;
  let clock: TestClock;
  let podUsers: PodUsers;
  let agentIsOfThisRelease: boolean;
  const warnings: unknown[] = [];
  beforeEach(() => {
    folder = new TemporaryFolder('csi');
    mounts = new FakeMounts();
    records = new PublishedRecords(folder.path, silentLogger);
    clock = new TestClock();
    agentIsOfThisRelease = true;
    warnings.length = 0;
    mounts.add(agentMount('view'), '8:0', ['ro', 'idmapped'], ['rw'], 'ext4');
    mounts.add(agentMount('fuse-team.model'), '0:50', ['ro'], ['ro']);
    podUsers = new PodUsers({
      kubeletDirectory: folder.file('kubelet'),
      records,
      mounts,
      makeMappable: (cluster, target) => publications().makeMappable(cluster, target, signal),
      everyMs: 3000,
      clock,
      logger: { ...silentLogger, warn: (_: string, fields?: unknown) => void warnings.push(fields) },
    });
  });
  afterEach(async () => {
    await podUsers.close();
    await folder.remove();
  });

  const agentMount = (kind: string) => folder.file('c/mounts', manifest('a'), kind);
  const agents: Pick<NodeAgents, 'find'> = {
    find: async () => {
      const call = async (_: string, { mapsIds }: { mapsIds: boolean }) =>
        mapsIds && agentIsOfThisRelease
          ? { ...published(agentMount('fuse-team.model')), dataPath: 'fuse' }
          : published(agentMount('view'));
      return { cluster: 'c', directory: folder.file('c'), control: { call } } as unknown as NodeAgent;
    },
  };
  const publications = (crash?: CrashPoint) =>
    new Publications({
      agents,
      mounts: crash?.wrap(mounts) ?? mounts,
      records: crash?.wrap(records) ?? records,
      mapsIds: (target) => podUsers.mapsIds(target),
      logger: silentLogger,
    });
  const target = (pod: string) => folder.file('kubelet/pods', pod, 'volumes/mount');
  function publication(pod: string, changes: Partial<Publication> = {}): Publication {
    mkdirSync(folder.file('kubelet/pods', pod), { recursive: true });
    return {
      volume: 'pvc-1',
      target: target(pod),
      choice: { cluster: 'c', namespace: 'team', dataset: 'model', revision: '' },
      usage: { singleTarget: false, noexec: true },
      readOnly: false,
      pod: undefined,
      ...changes,
    };
  }
  const publish = (pod: string) => publications().publish(publication(pod), signal);
  /** As the kubelet does before it asks for the sandbox. */
  const giveNamespace = (pod: string) => writeFileSync(folder.file('kubelet/pods', pod, 'userns'), '{}');
  const device = (pod: string) => mountAt(mounts.entries, target(pod))?.device;
  const layers = (pod: string) => mounts.entries.filter(({ mountPoint }) => mountPoint === target(pod));

  it('get a mount whose ids can be mapped in place of a view, as soon as they have the namespace', async () => {
    podUsers.start('now');
    for (const pod of ['mapped', 'other']) await publish(pod);
    podUsers.look();
    await podUsers.check();
    assert.deepEqual([device('mapped'), device('other')], ['8:0', '8:0']);
    giveNamespace('mapped');
    await until('it is bound again', () => device('mapped') === '0:50');
    assert.deepEqual(layers('mapped').at(-1)?.options, ['ro', 'nosuid', 'nodev', 'noexec']);
    assert.equal(device('other'), '8:0');
    const record = await records.find(target('mapped'));
    assert.deepEqual([record?.dataPath, record?.reboundAt], ['fuse', undefined]);
    await publications().unpublish('pvc-1', target('mapped'));
    assert.equal(layers('mapped').length, 0);
  });

  it('are looked for every few seconds, where the file was not seen to come', async () => {
    await publish('mapped');
    giveNamespace('mapped');
    podUsers.start();
    await clock.advance(3000);
    await until('it is bound again', () => device('mapped') === '0:50');
  });

  it('get such a mount at once when the namespace is there at the publish', async () => {
    await publish('mapped');
    giveNamespace('mapped');
    await publish('mapped');
    assert.deepEqual(
      layers('mapped').map((layer) => layer.device),
      ['0:50'],
    );
    assert.equal((await records.find(target('mapped')))?.dataPath, 'fuse');
    await publish('mapped');
    assert.equal(device('mapped'), '0:50');
  });

  it('get no overlay, whose ids cannot be mapped', async () => {
    for (const entry of mounts.entries) entry.options = ['ro'];
    await publish('mapped');
    assert.equal(device('mapped'), 'over 8:0');
    giveNamespace('mapped');
    await podUsers.check();
    assert.equal(device('mapped'), '0:50');
  });

  it('are told that an agent of an earlier release has no such mount', async () => {
    await publish('mapped');
    giveNamespace('mapped');
    agentIsOfThisRelease = false;
    const refused = { status: 'FAILED_PRECONDITION', message: /hostUsers: false.*upgrade the agent/ };
    await assert.rejects(publish('mapped'), refused);
    await podUsers.check();
    await podUsers.check();
    assert.equal(warnings.length, 1);
    assert.equal(device('mapped'), '8:0');
    agentIsOfThisRelease = true;
    await podUsers.check();
    assert.equal(device('mapped'), '0:50');
  });

  it('have a mount at each moment, and the right one after a death at any step', async () => {
    const rebinding = new Rebinding({
      stateDirectory: folder.path,
      records,
      mounts,
      rebind: (...mount) => publications().rebind(...mount),
      everyMs: 3000,
      clock,
      logger: silentLogger,
    });
    let step = 0;
    for (let finished = false; !finished; step++) {
      for (const when of ['before', 'after'] as const) {
        const pod = `${when}-${step}`;
        await publish(pod);
        giveNamespace(pod);
        const crash = new CrashPoint(step, when);
        await publications(crash)
          .makeMappable('c', target(pod), signal)
          .catch((thrown: unknown) => assert.ok(!(thrown instanceof HearthError), `${thrown}`));
        finished = !crash.reached;
        assert.notEqual(layers(pod).length, 0, `a mount is left ${when} step ${step}`);
        await reconcileRecords(records, mounts, silentLogger);
        await rebinding.check();
        await podUsers.check();
        await rebinding.check();
        assert.equal(device(pod), '0:50', `dead ${when} step ${step}`);
        assert.deepEqual(layers(pod).at(-1)?.options, ['ro', 'nosuid', 'nodev', 'noexec']);
        assert.equal((await records.find(target(pod)))?.reboundAt, undefined, `no loss is told, dead ${when} ${step}`);
        await publications().unpublish('pvc-1', target(pod));
      }
    }
    assert.ok(step > 3);
  });
});
