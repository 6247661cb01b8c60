import assert from 'node:assert/strict';
import { mkdirSync, readdirSync, writeFileSync } from 'node:fs';
import { HearthError, silentLogger } from '@hearth/common';
import { TemporaryFolder } from '@hearth/common/testing';
import type { NodeAgent, NodeAgents } from '../agent/index.ts';
import { mountAt } from '../mounts/index.ts';
import { reconcileRecords } from '../records/index.ts';
import { CrashPoint } from '../testing/crash.ts';
import { FakeMounts } from '../testing/fake_mounts.ts';
import { manifest, published } from '../testing/samples.ts';
import { type Publication, Publications } from './publications.ts';
import { PublishedRecords } from './published_records.ts';

/**
 * Protections of the files: the kubelet mounts read-only, the agent's mount refuses writes, or an overlay is needed.
 */
const kinds = ['read-only volumes', 'mounts without owners of files', 'overlays'] as const;
let kind: (typeof kinds)[number];

/** A node whose kernel and disk outlive the driver's process. */
class World {
  readonly folder = new TemporaryFolder('csi');
  readonly mounts = new FakeMounts();
  readonly records = new PublishedRecords(this.folder.path, silentLogger);
  /** The dataset's present revision; undefined: the agent is down. */
  revision: string | undefined = 'a';
  calls = 0;

  constructor() {
    const options = kind === 'mounts without owners of files' ? ['ro', 'idmapped'] : ['ro'];
    for (const [index, digit] of ['a', 'b'].entries()) this.mounts.add(this.dataPath(digit), `8:${index}`, options);
  }

  dataPath(digit: string): string {
    return `${this.folder.path}/c/mounts/${manifest(digit)}/view`;
  }

  readonly agents: Pick<NodeAgents, 'find'> = {
    find: async () => {
      if (this.revision === undefined) throw new HearthError('InUse', 'the agent is down');
      const digit = this.revision;
      const call = async () => {
        this.calls++;
        return published(this.dataPath(digit), manifest(digit));
      };
      return { cluster: 'c', directory: `${this.folder.path}/c`, control: { call } } as unknown as NodeAgent;
    },
  };

  publications(crash?: CrashPoint): Publications {
    const { agents, mounts, records } = this;
    const wrap = <T extends object>(part: T): T => crash?.wrap(part) ?? part;
    return new Publications({
      agents: wrap(agents),
      mounts: wrap(mounts),
      records: wrap(records),
      logger: silentLogger,
    });
  }

  /** The mount at the target and the record must be of one revision, and read-only. */
  async check(target: string): Promise<string> {
    const there = this.mounts.entries.filter((entry) => entry.mountPoint === target);
    assert.equal(there.length, 1);
    assert.ok(there[0]?.options.includes('ro'));
    const record = await this.records.find(target);
    const device = there[0]?.device ?? '';
    assert.equal(device.startsWith('over '), kind === 'overlays');
    const digit = device.endsWith('8:0') ? 'a' : 'b';
    assert.equal(record?.manifest, manifest(digit));
    return digit;
  }

  async checkNothing(target: string): Promise<void> {
    assert.equal(mountAt(this.mounts.entries, target), undefined);
    assert.equal(this.mounts.folders.has(target), false);
    assert.deepEqual(await this.records.all(), []);
  }
}

const signal = new AbortController().signal;
const target = '/kubelet/pods/1/mount';

function publication(changes: Partial<Publication> = {}): Publication {
  return {
    volume: 'pvc-1',
    target,
    choice: { cluster: 'c', namespace: 'team', dataset: 'model', revision: '' },
    usage: { singleTarget: false, noexec: false },
    readOnly: kind === 'read-only volumes',
    pod: undefined,
    ...changes,
  };
}

for (const each of kinds)
  describe(`Publications, for ${each}`, () => {
    before(() => {
      kind = each;
    });

    const worlds: World[] = [];
    const newWorld = (): World => {
      const world = new World();
      worlds.push(world);
      return world;
    };
    afterEach(async () => {
      for (const world of worlds.splice(0)) await world.folder.remove();
    });

    /** Runs `operation` in a process that dies at each of its steps in turn, then `afterwards` in the next process. */
    async function atEachCrash(
      prepare: (world: World) => Promise<void>,
      operation: (publications: Publications) => Promise<void>,
      afterwards: (world: World, description: string) => Promise<void>,
    ): Promise<number> {
      for (let step = 0; ; step++) {
        for (const when of ['before', 'after'] as const) {
          const world = newWorld();
          await prepare(world);
          const crash = new CrashPoint(step, when);
          const died = await operation(world.publications(crash)).then(
            () => false,
            () => true,
          );
          if (!crash.reached) return step;
          assert.ok(died, `${when} step ${step}`);
          await afterwards(world, `killed ${when} step ${step}`);
          await world.folder.remove();
        }
      }
    }

    const nothing = async () => undefined;
    const publishOnce = (publications: Publications) => publications.publish(publication(), signal);

    it('finishes a publish that died at any step when it is asked again', async () => {
      const steps = await atEachCrash(nothing, publishOnce, async (world, description) => {
        await world.publications().publish(publication(), signal);
        assert.equal(await world.check(target), 'a', description);
      });
      assert.ok(steps >= 10, `${steps} steps`);
    });

    it('records the revision that it mounts when the dataset has moved on in between', async () => {
      await atEachCrash(nothing, publishOnce, async (world, description) => {
        world.revision = 'b';
        await world.publications().publish(publication(), signal);
        assert.match(await world.check(target), /[ab]/, description);
      });
    });

    it('removes a publish that died at any step when it is unpublished, without an agent', async () => {
      await atEachCrash(nothing, publishOnce, async (world) => {
        world.revision = undefined;
        await world.publications().unpublish('pvc-1', target);
        await world.checkNothing(target);
      });
    });

    it('is repaired by the next start: what is not mounted pins nothing, and can be published', async () => {
      await atEachCrash(nothing, publishOnce, async (world, description) => {
        await reconcileRecords(world.records, world.mounts, silentLogger);
        const mounted = mountAt(world.mounts.entries, target) !== undefined;
        assert.equal((await world.records.all()).length, mounted ? 1 : 0, description);
        await world.publications().publish(publication(), signal);
        await world.check(target);
      });
    });

    it('finishes an unpublish that died at any step, and can publish after it', async () => {
      const prepare = async (world: World) => world.publications().publish(publication(), signal);
      const unpublish = (publications: Publications) => publications.unpublish('pvc-1', target);
      await atEachCrash(prepare, unpublish, async (world) => {
        await world.publications().unpublish('pvc-1', target);
        await world.checkNothing(target);
      });
      await atEachCrash(prepare, unpublish, async (world) => {
        await world.publications().publish(publication(), signal);
        await world.check(target);
      });
    });

    it('publishes again after the node was booted', async () => {
      const world = newWorld();
      await world.publications().publish(publication(), signal);
      world.mounts.reboot();
      assert.deepEqual(await reconcileRecords(world.records, world.mounts, silentLogger), { kept: 0, removed: 1 });
      world.mounts.add(world.dataPath('b'), '8:1', kind === 'mounts without owners of files' ? ['idmapped'] : ['ro']);
      world.revision = 'b';
      await world.publications().publish(publication(), signal);
      assert.equal(await world.check(target), 'b');
    });

    it('answers a repeated publish without the agent, and keeps its revision', async () => {
      const world = newWorld();
      await world.publications().publish(publication(), signal);
      world.revision = undefined;
      await world.publications().publish(publication(), signal);
      assert.equal(await world.check(target), 'a');
      assert.equal(world.calls, 1);
    });

    it('leaves nothing behind when a step fails', async () => {
      const world = newWorld();
      world.mounts.bind = world.mounts.overlay = async () => {
        throw new HearthError('IoError', 'no bind today');
      };
      await assert.rejects(world.publications().publish(publication(), signal), { message: 'no bind today' });
      await world.checkNothing(target);
    });

    it('leaves nothing behind when the caller gives up', async () => {
      const world = newWorld();
      const controller = new AbortController();
      const make = world.mounts.makeTarget.bind(world.mounts);
      const write = world.records.write.bind(world.records);
      world.mounts.makeTarget = async (path) => make(path);
      world.records.write = async (...args) => {
        await write(...args);
        controller.abort(new HearthError('Cancelled', 'given up'));
      };
      await assert.rejects(world.publications().publish(publication(), controller.signal), { code: 'Cancelled' });
      await world.checkNothing(target);
    });

    it('publishes one volume at two targets, and keeps one when the other goes', async () => {
      const world = newWorld();
      const other = publication({ target: '/kubelet/pods/2/mount' });
      await world.publications().publish(publication(), signal);
      await world.publications().publish(other, signal);
      await world.publications().unpublish('pvc-1', target);
      assert.equal(await world.check(other.target), 'a');
      assert.equal((await world.records.all()).length, 1);
    });

    it('refuses a second target when only one pod may use the volume, unless the first is stale', async () => {
      const world = newWorld();
      const single = (path: string) => publication({ target: path, usage: { singleTarget: true, noexec: false } });
      await world.publications().publish(single(target), signal);
      await assert.rejects(world.publications().publish(single('/kubelet/pods/2/mount'), signal), {
        status: 'FAILED_PRECONDITION',
        message: /ReadWriteOncePod.*\/kubelet\/pods\/1\/mount/,
      });
      await world.mounts.unmount(target);
      await world.publications().publish(single('/kubelet/pods/2/mount'), signal);
    });

    it('refuses a target at which another volume is, and does not unpublish it in its place', async () => {
      const world = newWorld();
      await world.publications().publish(publication(), signal);
      const other = publication({ volume: 'pvc-2' });
      await assert.rejects(world.publications().publish(other, signal), { status: 'ALREADY_EXISTS' });
      await world.publications().unpublish('pvc-2', target);
      assert.equal(await world.check(target), 'a');
    });

    it('replaces a mount without a record, unless it is the revision itself', async () => {
      const world = newWorld();
      world.mounts.add(target, '9:9');
      await world.publications().publish(publication(), signal);
      assert.equal(await world.check(target), 'a');
      for (const { cluster, id } of await world.records.all()) await world.records.removeFile(cluster, id);
      if (kind !== 'overlays') world.mounts.bind = async () => assert.fail('what is there is what was asked for');
      await world.publications().publish(publication(), signal);
      await world.check(target);
    });

    it('replaces a mount that containers could make writable', async () => {
      const world = newWorld();
      await world.publications().publish(publication({ readOnly: true }), signal);
      await world.publications().publish(publication(), signal);
      await world.check(target);
    });

    it('gives files with SELinux labels a label of their own, in a mount that no runtime labels', async () => {
      const world = newWorld();
      for (const entry of world.mounts.entries) entry.superOptions = ['rw', 'seclabel'];
      await world.publications().publish(publication({ readOnly: true }), signal);
      const [mounted] = world.mounts.entries.filter(({ mountPoint }) => mountPoint === target);
      assert.ok(mounted?.device.startsWith('over '), mounted?.device);
      assert.ok(!mounted?.superOptions.includes('seclabel'));
    });

    it('refuses a path of the agent that is not mounted here, or not below its folder', async () => {
      const world = newWorld();
      world.mounts.reboot();
      await assert.rejects(world.publications().publish(publication(), signal), {
        status: 'FAILED_PRECONDITION',
        message: /HostToContainer/,
      });
      world.dataPath = () => '/etc';
      await assert.rejects(world.publications().publish(publication(), signal), { status: 'INTERNAL' });
      await world.checkNothing(target);
    });

    it("does not give a pod what lies below an agent's mount that went at that moment", async () => {
      const world = newWorld();
      const { bind, overlay } = world.mounts;
      for (const [name, make] of Object.entries({ bind, overlay })) {
        world.mounts[name as 'bind'] = async (source, to, restrictions) => {
          await make.call(world.mounts, source, to, restrictions);
          world.mounts.entries.splice(
            world.mounts.entries.findIndex((entry) => entry.mountPoint === source),
            1,
          );
        };
      }
      await assert.rejects(world.publications().publish(publication(), signal), {
        status: 'FAILED_PRECONDITION',
        message: /removed its mount .* during the publish/,
      });
      await world.checkNothing(target);
    });

    it('names Dataset and cluster when the agent refuses', async () => {
      const world = newWorld();
      const refuse = async () => {
        throw new HearthError('NotFound', 'there is no dataset team.model');
      };
      const agent = { cluster: 'c', directory: '/c', control: { call: refuse } } as unknown as NodeAgent;
      const { mounts, records } = world;
      const publications = new Publications({
        agents: { find: async () => agent },
        mounts,
        records,
        logger: silentLogger,
      });
      await assert.rejects(publications.publish(publication(), signal), {
        code: 'NotFound',
        message:
          'Dataset team/model of StorageCluster c cannot be published: there is no dataset team.model; kubectl describe dataset -n team model says more',
      });
    });

    it('unpublishes what was mounted several times over, and what is not there at all', async () => {
      const world = newWorld();
      world.mounts.folders.add(target);
      for (let i = 0; i < 3; i++) world.mounts.add(target, '9:9');
      await world.publications().unpublish('pvc-1', target);
      await world.publications().unpublish('pvc-1', target);
      await world.publications().unpublish('pvc-1', '/kubelet/gone/mount');
      await world.checkNothing(target);
    });

    it('unpublishes although the record is damaged or its cluster unknown', async () => {
      const world = newWorld();
      await world.publications().publish(publication(), signal);
      const [stored] = await world.records.all();
      const name = `${world.folder.path}/c/published/${stored?.id}.json`;
      writeFileSync(name, '{"id":');
      mkdirSync(`${world.folder.path}/other/published`, { recursive: true });
      await world.publications().unpublish('pvc-1', target);
      await world.checkNothing(target);
      assert.deepEqual(readdirSync(`${world.folder.path}/c/published`), []);
    });
  });
