import { join } from 'node:path';
import { needsMounts, needsPrograms, root, tool } from '@hearth/common/testing';
import { KvVolume } from './kv_volume.ts';

const programs = {
  sglang_hearth: "SGLang's HiCache by hearth_sglang",
  vllm_hearth: "vLLM's tiering manager by hearth_vllm",
};

/** Plug-ins of engines as their packages load them (docs/integrations), on a scratch volume of three agents. */
describe('plug-ins of engines', () => {
  let python: string;
  let volume: KvVolume;

  before(async function () {
    needsMounts(this);
    python = await needsPrograms(this, () => tool('engines-python'));
    const folders = [
      'build/release/client_tests/pygd2fs',
      ...['engines', 'lmcache', 'sglang', 'vllm'].map((name) => `integrations/${name}`),
    ];
    volume = await KvVolume.start({
      PYTHONPATH: folders.map((folder) => join(root, folder)).join(':'),
      // LMCache would report its usage.
      LMCACHE_TRACK_USAGE: 'false',
    });
  });
  after(async () => volume?.close());

  it("LMCache's storage manager by hearth_lmcache: stores by one agent, and loads by the others, also after all were killed", async function () {
    this.timeout(20 * 60_000);
    await volume.step(python, 'lmcache_hearth.py', 'store', 'a');
    await volume.step(python, 'lmcache_hearth.py', 'load', 'b');
    await volume.restart();
    await volume.step(python, 'lmcache_hearth.py', 'load', 'c');
  });

  for (const [name, title] of Object.entries(programs)) {
    it(`${title}: stores by one agent, and loads by the others`, async function () {
      this.timeout(20 * 60_000);
      for (const [step, agent] of [
        ['store', 'a'],
        ['load', 'b'],
        ['load', 'c'],
      ] as const) {
        await volume.step(python, `${name}.py`, step, agent);
      }
    });

    it(`${title}: loads or misses while an agent dies, and loads after all were killed`, async function () {
      this.timeout(20 * 60_000);
      await volume.stepThatLosesItsAgent(python, `${name}.py`, 'lose', 'b');
      await volume.restart();
      await volume.step(python, `${name}.py`, 'load', 'b');
    });
  }
});
