import { copyFileSync } from 'node:fs';
import { join } from 'node:path';
import { needsMounts, needsPrograms, root, TemporaryFolder, tool } from '@hearth/common/testing';
import { KvVolume } from './kv_volume.ts';

/** NIXL by its package, with our back end beside no other one (docs/kv-engines.md), on a scratch volume of three agents. */
describe("NIXL's back end HEARTH", () => {
  const program = 'nixl_hearth.py';
  let python: string;
  let plugins: TemporaryFolder;
  let volume: KvVolume;

  before(async function () {
    needsMounts(this);
    python = await needsPrograms(this, () => tool('nixl-python'));
    plugins = new TemporaryFolder('nixl-plugins');
    copyFileSync(join(root, 'build/release/nixl/libplugin_HEARTH.so'), join(plugins.path, 'libplugin_HEARTH.so'));
    volume = await KvVolume.start({ NIXL_PLUGIN_DIR: plugins.path });
  });
  after(async () => {
    await volume?.close();
    await plugins?.remove();
  });

  it('stores by one agent, and reads by the others', async () => {
    await volume.step(python, program, 'store', 'a');
    await volume.step(python, program, 'load', 'b');
    await volume.step(python, program, 'load', 'c');
  });

  it('stores again what is there, by another agent', async () => {
    await volume.step(python, program, 'store', 'b');
  });

  it('reads the same after every agent was killed', async () => {
    await volume.restart();
    await volume.step(python, program, 'load', 'c');
  });
});
