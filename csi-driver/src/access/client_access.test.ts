import assert from 'node:assert/strict';
import { mkdirSync, readdirSync, readFileSync } from 'node:fs';
import { rm } from 'node:fs/promises';
import { join } from 'node:path';
import { HearthError, type Logger, silentLogger } from '@hearth/common';
import { TemporaryFolder } from '@hearth/common/testing';
import type { NodeAgent, NodeAgents } from '../agent/index.ts';
import { mountAt } from '../mounts/index.ts';
import { reconcileRecords } from '../records/index.ts';
import { CrashPoint } from '../testing/crash.ts';
import { FakeMounts } from '../testing/fake_mounts.ts';
import { type AccessPublication, AccessRecords, ClientAccess } from './client_access.ts';

const target = '/kubelet/pods/1/mount';
const signal = new AbortController().signal;

/** A node whose kernel and disk outlive the driver's process; its agent numbers the tokens that it makes. */
class World {
  readonly folder = new TemporaryFolder('csi');
  readonly mounts = new FakeMounts();
  readonly records = new AccessRecords(this.folder.path, silentLogger);
  readonly datasets = new Set(['team.model', 'team.words']);
  readonly asked: { name: string; request: unknown }[] = [];
  readonly logged: string[] = [];
  agents = ['gd2fs://10.0.0.1:7527', 'gd2fs://10.0.0.2:7527'];
  isAgentDown = false;
  readonly granted = new Set(['read', 'advise']);
  tokens = 0;

  constructor() {
    mkdirSync(this.clients, { recursive: true });
    this.mounts.plain.add(this.clients);
  }

  get clients(): string {
    return `${this.folder.path}/c/run/clients`;
  }

  readonly finding: Pick<NodeAgents, 'find'> = {
    find: async () => {
      if (this.isAgentDown) throw new HearthError('InUse', 'the agent is down');
      const call = async (name: string, request: { name: string }) => {
        this.asked.push({ name, request });
        if (name === 'createToken') {
          const { rights } = request as unknown as { rights: string[] };
          if (rights.some((right) => !this.granted.has(right)))
            throw new HearthError('PermissionDenied', 'pods of the namespace may not advise');
          return { token: `hearth-token-1.${++this.tokens}`, expiresAtMs: 0n, cluster: 'c', agents: this.agents };
        }
        if (this.datasets.has(request.name)) return {};
        throw new HearthError('NotFound', `there is no dataset ${request.name}`);
      };
      return { cluster: 'c', directory: `${this.folder.path}/c`, control: { call } } as unknown as NodeAgent;
    },
  };

  access(crash?: CrashPoint): ClientAccess {
    const wrap = <T extends object>(part: T): T => crash?.wrap(part) ?? part;
    const log = (...words: unknown[]) => void this.logged.push(JSON.stringify(words));
    const logger = { ...silentLogger, log, debug: log, info: log, warn: log, error: log } as Logger;
    const { finding, mounts, records } = this;
    return new ClientAccess({ agents: wrap(finding), mounts: wrap(mounts), records: wrap(records), logger });
  }

  text(name: string): string | undefined {
    return this.mounts.files.get(`${target}/${name}`);
  }

  checkPublished(token: number): void {
    assert.equal(this.text('token'), `hearth-token-1.${token}`);
    assert.equal(this.text('addresses'), this.agents.join(','));
    assert.equal(this.text('cluster'), 'c');
    assert.equal(this.text('clients.sock'), '-> agent/clients.sock');
    const at = (path: string) => this.mounts.entries.filter(({ mountPoint }) => mountPoint === path);
    assert.deepEqual(
      at(target).map(({ type }) => type),
      ['tmpfs'],
    );
    assert.deepEqual(
      at(`${target}/agent`).map(({ device }) => device),
      [`plain ${this.clients}`],
    );
    assert.ok(this.mounts.shared.has(this.clients), 'with SELinux too');
  }

  async checkNothing(): Promise<void> {
    assert.deepEqual(this.mounts.entries, []);
    assert.equal(this.mounts.folders.has(target), false);
    assert.deepEqual(await this.records.all(), []);
  }
}

function publication(changes: Partial<AccessPublication> = {}): AccessPublication {
  return {
    volume: 'csi-1',
    target,
    choice: { cluster: undefined, namespace: 'team', datasets: ['model', 'words'], rights: ['read'] },
    group: undefined,
    readOnly: true,
    pod: { namespace: 'team', name: 'reader', uid: 'u' },
    ...changes,
  };
}

async function renew(access: ClientAccess): Promise<void> {
  const renewal = await access.renewal(target, signal);
  if (renewal !== undefined) await access.refill(renewal);
}

describe('ClientAccess', () => {
  const worlds: World[] = [];
  const newWorld = (): World => {
    const world = new World();
    worlds.push(world);
    return world;
  };
  afterEach(async () => {
    for (const world of worlds.splice(0)) {
      assert.ok(!world.logged.some((line) => line.includes('hearth-token')), 'a token is in the log');
      await world.folder.remove();
    }
  });

  it('gives a pod a token for its Datasets, the agents and the socket of its node, and takes all of it away', async () => {
    const world = newWorld();
    await world.access().publish(publication(), signal);
    world.checkPublished(1);
    const { request } = world.asked.at(-1) ?? {};
    assert.deepEqual(request, {
      datasets: ['team.model', 'team.words'],
      rights: ['read'],
      lifeMs: 3_600_000n,
      node: '',
      podNamespace: 'team',
      podUid: 'u',
    });
    assert.equal((await world.access().space('csi-1', target))?.bytes, 1024n);
    assert.equal(await world.access().unpublish('csi-1', target), true);
    await world.checkNothing();
    assert.equal(await world.access().unpublish('csi-1', target), false);
    assert.equal(await world.access().space('csi-1', target), undefined);
  });

  it('keeps a record from which a token can be renewed, and no token', async () => {
    const world = newWorld();
    await world.access().publish(publication({ group: 2000 }), signal);
    assert.equal(world.text('token'), 'hearth-token-1.1 for 2000');
    const folder = world.folder.file('c/client-access');
    const [name = ''] = readdirSync(folder);
    const text = readFileSync(join(folder, name), 'utf8');
    assert.match(text, /"team\.model"/);
    assert.doesNotMatch(text, /hearth-token/);
  });

  it('renews token and addresses in place, also by the next process, whatever Datasets have gone', async () => {
    const world = newWorld();
    await world.access().publish(publication(), signal);
    world.agents = ['gd2fs://10.0.0.3:7527'];
    world.datasets.clear();
    await renew(world.access());
    world.checkPublished(2);
    world.isAgentDown = true;
    await assert.rejects(renew(world.access()), /the agent is down/);
    world.checkPublished(2);
  });

  it('refuses rights that the administrator does not grant, and keeps reading when they are taken back', async () => {
    const world = newWorld();
    const lastRights = () => world.asked.map(({ request }) => (request as { rights?: string[] }).rights).at(-1);
    const advising = (rights: AccessPublication['choice']['rights']) =>
      publication({ choice: { ...publication().choice, rights } });
    await assert.rejects(world.access().publish(advising(['read', 'advise-cluster']), signal), {
      code: 'PermissionDenied',
    });
    await world.checkNothing();
    await world.access().publish(advising(['read', 'advise']), signal);
    world.granted.delete('advise');
    await renew(world.access());
    world.checkPublished(2);
    assert.deepEqual(lastRights(), ['read']);
    assert.match(world.logged.join('\n'), /may only read from now on/);
    world.granted.add('advise');
    await renew(world.access());
    assert.deepEqual(lastRights(), ['read', 'advise']);
  });

  it('refuses a volume of no pod', async () => {
    const world = newWorld();
    await assert.rejects(world.access().publish(publication({ pod: undefined }), signal), {
      status: 'FAILED_PRECONDITION',
    });
    await world.checkNothing();
  });

  it('renews nothing for a folder that has gone, or is another one when the token has come', async () => {
    const world = newWorld();
    await renew(world.access());
    assert.equal(world.tokens, 0);
    await world.access().publish(publication(), signal);
    const renewal = await world.access().renewal(target, signal);
    assert.ok(renewal);
    await world.access().unpublish('csi-1', target);
    await world.access().refill(renewal);
    await world.checkNothing();
    await world.access().publish(publication({ volume: 'csi-2' }), signal);
    await world.access().refill(renewal);
    world.checkPublished(3);
    world.mounts.reboot();
    await renew(world.access());
    assert.deepEqual(await reconcileRecords(world.records, world.mounts, silentLogger), { kept: 0, removed: 1 });
  });

  it('binds the folder of the socket when the agent has one at last', async () => {
    const world = newWorld();
    await rm(world.clients, { recursive: true });
    await world.access().publish(publication(), signal);
    assert.equal(mountAt(world.mounts.entries, `${target}/agent`), undefined);
    mkdirSync(world.clients);
    await renew(world.access());
    world.checkPublished(2);
  });

  it('refuses a Dataset that is not there before anything is made, and says where to look', async () => {
    const world = newWorld();
    world.datasets.delete('team.words');
    await assert.rejects(world.access().publish(publication(), signal), {
      code: 'NotFound',
      message: /clients of StorageCluster c cannot read Dataset team\/words: .*kubectl describe dataset -n team words/,
    });
    assert.equal(world.tokens, 0);
    await world.checkNothing();
  });

  it('refuses a volume that containers could write to, and a target of another volume', async () => {
    const world = newWorld();
    await assert.rejects(world.access().publish(publication({ readOnly: false }), signal), {
      status: 'INVALID_ARGUMENT',
      message: /readOnly: true/,
    });
    await world.access().publish(publication(), signal);
    await assert.rejects(world.access().publish(publication({ volume: 'csi-2' }), signal), {
      status: 'ALREADY_EXISTS',
    });
    assert.equal(await world.access().unpublish('csi-2', target), true);
    world.checkPublished(1);
  });

  it('keeps the folder that a pod has when a repeated publish fails', async () => {
    const world = newWorld();
    await world.access().publish(publication(), signal);
    world.mounts.replace = async () => {
      throw new HearthError('IoError', 'no room');
    };
    await assert.rejects(world.access().publish(publication(), signal), /no room/);
    world.checkPublished(1);
  });

  /** Runs `operation` in a process that dies at each of its steps in turn, then `afterwards` in the next one. */
  async function atEachCrash(
    prepare: (world: World) => Promise<void>,
    operation: (access: ClientAccess) => Promise<unknown>,
    afterwards: (world: World) => Promise<void>,
  ): Promise<number> {
    for (let step = 0; ; step++) {
      for (const when of ['before', 'after'] as const) {
        const world = newWorld();
        await prepare(world);
        const crash = new CrashPoint(step, when);
        await operation(world.access(crash)).catch(() => undefined);
        if (!crash.reached) return step;
        await afterwards(world);
      }
    }
  }
  const publish = (access: ClientAccess) => access.publish(publication(), signal);
  const unpublish = (access: ClientAccess) => access.unpublish('csi-1', target);

  it('finishes a publish and an unpublish that died at any step', async () => {
    const nothing = async () => undefined;
    const published = (world: World) => publish(world.access());
    const again = async (world: World) => {
      await publish(world.access());
      world.checkPublished(world.tokens);
    };
    assert.ok((await atEachCrash(nothing, publish, again)) >= 10);
    await atEachCrash(nothing, publish, async (world) => {
      await reconcileRecords(world.records, world.mounts, silentLogger);
      await again(world);
    });
    await atEachCrash(published, unpublish, again);
    await atEachCrash(published, unpublish, async (world) => {
      await unpublish(world.access());
      await world.checkNothing();
    });
  });

  it('leaves nothing that is not its own when the mount of a publish fails', async () => {
    const world = newWorld();
    world.mounts.memory = async () => {
      throw new HearthError('IoError', 'mount failed');
    };
    await assert.rejects(publish(world.access()), /mount failed/);
    await world.checkNothing();
    assert.equal(mountAt(world.mounts.entries, target), undefined);
  });
});
