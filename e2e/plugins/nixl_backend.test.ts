import assert from 'node:assert/strict';
import { copyFileSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { needsMounts, needsPrograms, root, run, tool } from '@hearth/common/testing';
import { ThreeMounts } from '../src/scratch/three_mounts.ts';

/** NIXL by its package, with our back end beside no other one (docs/kv-engines.md), on a scratch volume of three agents. */
describe("NIXL's back end HEARTH", () => {
  const program = join(import.meta.dirname, 'nixl_hearth.py');
  let python: string;
  let mounts: ThreeMounts;
  let environment: Record<string, string>;

  before(async function () {
    needsMounts(this);
    python = await needsPrograms(this, () => tool('nixl-python'));
    mounts = await ThreeMounts.start();
    const { folder } = mounts.cluster;
    const plugins = join(folder, 'nixl-plugins');
    mkdirSync(plugins);
    copyFileSync(join(root, 'build/release/nixl/libplugin_HEARTH.so'), join(plugins, 'libplugin_HEARTH.so'));
    const tokenFile = join(folder, 'token');
    writeFileSync(tokenFile, await token(readFileSync(join(folder, 'secret'), 'utf8')), { mode: 0o600 });
    environment = { NIXL_PLUGIN_DIR: plugins, HEARTH_TOKEN_FILE: tokenFile, PYTHONDONTWRITEBYTECODE: '1' };
  });
  after(async () => mounts?.close());

  async function token(secret: string): Promise<string> {
    const words = ['token', 'volume:kv', '--right', 'read', 'write'];
    const given = { HEARTH_SECRET: secret.trim(), HEARTH_CLUSTER: 'e2e' };
    const { code, stdout, stderr } = await run(join(root, 'cli/bin/hearth'), words, { environment: given });
    assert.equal(code, 0, stderr);
    return stdout.trim();
  }

  async function step(name: 'store' | 'load', agent: string): Promise<void> {
    const address = `gd2fs://127.0.0.1:${mounts.cluster.agent(agent).wirePort}`;
    const { code, stdout, stderr } = await run(python, [program, name, address], {
      environment,
      timeoutMs: 5 * 60_000,
    });
    assert.equal(code, 0, `${stdout.slice(-2000)}${stderr.slice(-4000)}`);
    assert.match(stdout, /^done$/m);
  }

  it('stores by one agent, and reads by the others', async () => {
    await step('store', 'a');
    await step('load', 'b');
    await step('load', 'c');
  });

  it('stores again what is there, by another agent', async () => {
    await step('store', 'b');
  });

  it('reads the same after every agent was killed', async () => {
    const { cluster } = mounts;
    await Promise.all(
      ['a', 'b', 'c'].map(async (agent) => {
        await cluster.agent(agent).kill();
        await cluster.agent(agent).start();
      }),
    );
    await cluster.allReady();
    await step('load', 'c');
  });
});
