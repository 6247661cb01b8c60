import assert from 'node:assert/strict';
import { join } from 'node:path';
import { needsMounts, needsPrograms, run, tool } from '@hearth/common/testing';
import { ThreeMounts } from '../src/scratch/three_mounts.ts';

const programs = {
  vllm_fs_tier: "vLLM's tier fs",
  sglang_file: "SGLang's back end file",
  lmcache_tiers: "LMCache's tiers fs and fs_native",
  nixl_posix: "NIXL's back end POSIX",
  torch_checkpoint: "PyTorch's writers of checkpoints, for files and for fsspec",
};

/** The file tiers of inference engines as their packages have them (docs/kv-engines.md), on a scratch volume of three agents. */
describe('file tiers of engines on a scratch volume', () => {
  let python: string;
  let mounts: ThreeMounts;

  before(async function () {
    needsMounts(this);
    python = await needsPrograms(this, () => tool('engines-python'));
    mounts = await ThreeMounts.start();
  });
  after(async () => mounts?.close());

  async function step(program: string, name: 'store' | 'load', mount: string): Promise<void> {
    const words = [join(import.meta.dirname, `${program}.py`), name, mount];
    // LMCache would report its usage.
    const environment = { LMCACHE_TRACK_USAGE: 'false', PYTHONDONTWRITEBYTECODE: '1' };
    const { code, stdout, stderr } = await run(python, words, { environment, timeoutMs: 9 * 60_000 });
    assert.equal(code, 0, `${stdout.slice(-2000)}${stderr.slice(-4000)}`);
  }

  for (const [program, title] of Object.entries(programs)) {
    it(`gives ${title} on other nodes what one has stored`, async function () {
      this.timeout(30 * 60_000);
      const [a = '', b = '', c = ''] = mounts.paths;
      await step(program, 'store', a);
      await step(program, 'load', b);
      await step(program, 'load', c);
    });
  }

  it("gives LMCache's local_disk what the same process has stored", async () => {
    for (const mount of mounts.paths) await step('lmcache_local_disk', 'store', mount);
  });

  it('gives all of them the same after every agent was killed', async function () {
    this.timeout(60 * 60_000);
    await Promise.all(
      ['a', 'b', 'c'].map(async (agent) => {
        await mounts.cluster.agent(agent).kill();
        await mounts.cluster.agent(agent).start();
      }),
    );
    await mounts.cluster.allReady();
    for (const program of Object.keys(programs)) await step(program, 'load', mounts.paths[1] ?? '');
  });
});
