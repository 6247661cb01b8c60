import assert from 'node:assert/strict';
import { mkdirSync, realpathSync } from 'node:fs';
import { join } from 'node:path';
import { controlApi } from '@hearth/common';
import { MiB, needsMounts, root, run, skip, until } from '@hearth/common/testing';
import { Cluster } from '@hearth/common/testing/agents';
import { type Finding, Reader } from '../soak/readers.ts';
import { readerProgram } from '../soak/stage.ts';
import { baseline, findPreviousRelease, type PreviousRelease } from './previous_release.ts';

const names = ['a', 'b', 'c'];
const sizes = [24 * MiB + 17, 16 * MiB, 9 * MiB, 65_537, 5];
const readSeconds = 1800;
/** Of one read, on a machine that is busy with something else; and of all readers after a step. */
const longestWaitMs = 300_000;

/** Three agents of the previous release, with what they have mounted, become this one while they are read. */
describe('an upgrade from the previous release', function () {
  this.timeout(30 * 60_000); // the first time, the previous release is built
  let previous: PreviousRelease;
  let cluster: Cluster;
  let readers: Reader[];
  let findings: Finding[];

  before(async function () {
    needsMounts(this);
    const found = await findPreviousRelease();
    if ('missing' in found) skip(this, found.missing);
    previous = found;
    console.log(`      from ${previous.name}`);
  });
  beforeEach(async () => {
    findings = [];
    readers = [];
    cluster = await Cluster.start(names, { holder: true, release: previous.folder });
    expectReleases(old(), old());
    await expectDifferences('c', ['c']);
    const origin = join(cluster.folder, 'origin');
    mkdirSync(origin);
    for (const [seed, bytes] of sizes.entries()) {
      const { code, stderr } = await run(readerProgram, ['write', `${seed}`, `${bytes}`, join(origin, `${seed}`)]);
      assert.equal(code, 0, stderr);
    }
    await cluster.json('a', 'dataset', 'add', 'd', origin);
    // One has everything, one a part of it, one nothing: views, passthrough and the agent answer in turn.
    await cluster.json('a', 'warm', 'd', '--node', 'a');
    await cluster.json('b', 'warm', 'd', '1', '--node', 'b');
    for (const name of names) {
      const target = cluster.mountPoint(name);
      await cluster.json(name, 'mount', 'd', target, '--data-path', name === 'c' ? 'daemon' : 'fuse');
      const files = sizes.map((_, seed) => `${join(target, `${seed}`)}=${seed}`);
      for (const mode of ['read', 'mmap', 'random'] as const) {
        readers.push(new Reader(`${mode} on ${name}`, mode, readSeconds, files, (one) => findings.push(one)));
      }
    }
  });
  afterEach(async () => {
    for (const reader of readers) reader.stop();
    await cluster.close();
  });

  const old = () => realpathSync(previous.folder);
  /** The kernel names the checkout of each process, so both releases really run. */
  const expectReleases = (agents: string, holder: string) => {
    assert.notEqual(old(), root);
    assert.deepEqual(
      [...names.map((name) => cluster.agent(name).runningRelease), cluster.holderRelease],
      [...names.map(() => agents), holder],
    );
  };
  /** An agent says that these lack what this release has added to the control API, and no others. */
  const expectDifferences = async (agent: string, lacking: string[]) => {
    if (process.env.HEARTH_PREVIOUS !== undefined) return; // what that one has is not known here
    const added = controlApi.apiFeatures.some((one) => !baseline.apiFeatures.includes(one));
    const expected = added ? lacking : [];
    let said: string[] = [];
    const same = async () => {
      const { apiDifferences } = await cluster.json<{ apiDifferences: string[] }>(agent, 'status');
      said = apiDifferences.map((one) => /^the agent on (\w+) .*; upgrade the agent$/.exec(one)?.[1] ?? one).sort();
      return said.join() === expected.join();
    };
    await until('', same).catch(() => assert.deepEqual(said, expected));
  };

  const upgradeAgents = async () => {
    const holder = cluster.holderRelease;
    for (const [index, name] of names.entries()) {
      const agent = cluster.agent(name);
      await agent.stop();
      agent.release = root;
      await agent.start();
      assert.equal(agent.runningRelease, root);
      await expectDifferences(name, names.slice(index + 1));
      await allRead(`agent ${name} is of this release`);
    }
    expectReleases(root, holder);
  };
  const upgradeHolder = async () => {
    assert.equal((await cluster.replaceHolder())?.code, 0);
    assert.equal(cluster.holderRelease, root);
    await allRead('the holder is of this release');
  };

  /** Every reader gets bytes after a step, and none has waited too long for them. */
  const allRead = async (step: string) => {
    const before = readers.map(({ bytes }) => bytes);
    const waiting = () => readers.filter(({ bytes }, index) => bytes <= (before[index] ?? 0)).map(({ name }) => name);
    const everybody = () => waiting().length === 0;
    await until('', everybody).catch(() => assert.deepEqual(waiting(), [], `hang since ${step}`));
    for (const reader of readers)
      assert.ok(reader.longestWaitMs < longestWaitMs, `${reader.name} waited until ${step}`);
  };

  /** No reader has noticed, and what is cached, claimed and mounted is known to the new agents. */
  const check = async () => {
    expectReleases(root, root);
    assert.deepEqual(findings, []);
    for (const { name, failure } of readers) assert.equal(failure, undefined, name);
    for (const name of names) {
      const { mounts } = await cluster.json<{ mounts: { dataset: string }[] }>(name, 'mounts');
      assert.deepEqual(
        mounts.map(({ dataset }) => dataset),
        ['d'],
        name,
      );
      const { summary } = await cluster.json<{ summary: Record<string, number> }>(name, 'verify', 'd', '--origin');
      assert.equal(summary?.mismatches, 0);
    }
    await allRead('everything was compared');
    assert.deepEqual(findings, []);
    assert.deepEqual(cluster.endedByThemselves(), []);
  };

  it('of agents one by one, and then of the holder: no read fails and no byte is wrong', async () => {
    await upgradeAgents();
    await upgradeHolder();
    await check();
  });

  it('of the holder, and then of agents one by one: no read fails and no byte is wrong', async () => {
    await upgradeHolder();
    await upgradeAgents();
    await check();
  });
});
