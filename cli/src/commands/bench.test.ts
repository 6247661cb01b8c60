import assert from 'node:assert/strict';
import { chmod, mkdir, mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { jsonLines, runCommand } from '../testing/fake_terminal.ts';

const built = (name: string) => fileURLToPath(new URL(`../../../build/release/gpu/${name}`, import.meta.url));

describe('hearth bench load', () => {
  let directory: string;
  let environment: Record<string, string>;

  const load = (words: string[] = [], options = {}) =>
    runCommand(['bench', 'load', ...words], { environment, directory, ...options });
  /** A hearth-load that records its arguments and then runs `script`. */
  const fakeLoad = async (script: string) => {
    environment.HEARTH_LOAD = join(directory, 'load');
    await writeFile(environment.HEARTH_LOAD, `#!/bin/sh\necho "$@" > words\n${script}\n`);
    await chmod(environment.HEARTH_LOAD, 0o755);
  };

  beforeEach(async () => {
    directory = await mkdtemp(join(tmpdir(), 'hearth-bench-'));
    environment = {};
    await writeFile(join(directory, 'weights'), 'x'.repeat(300_000));
  });
  afterEach(() => rm(directory, { recursive: true }));

  it('reads files into the memory of the host', async () => {
    const { code, out } = await load(['weights', '--device', 'cpu', '--verify']);
    assert.equal(code, 0);
    assert.match(out, /^cpu \(host memory\): 293\.0 KiB in \d\.\d{3} s, \d+\.\d\d GB\/s, verified\npath: host\n/);
    assert.match(out, /^why not direct: the memory is the host's$/m);
  });

  it('prints JSON', async () => {
    const [loaded] = jsonLines((await load(['weights', '--device', 'cpu', '--json'])).out);
    assert.equal(loaded?.bytes, 300_000);
    assert.equal(loaded?.path, 'host');
    assert.equal(loaded?.verified, false);
  });

  /** hearth-load with the CUDA and cuFile provider of the native tests, on a machine with nvidia-fs. */
  const useFakeGpu = async () => {
    await mkdir(join(directory, 'proc/driver/nvidia-fs'), { recursive: true });
    await writeFile(join(directory, 'proc/driver/nvidia-fs/version'), 'version: 2.19\n');
    environment.HEARTH_LOAD = join(directory, 'over-fake-gpu');
    const library = built('libfake_gpu.so');
    const settings = `HEARTH_GPU_ROOT=${directory} HEARTH_CUDA_LIBRARY=${library} HEARTH_CUFILE_LIBRARY=${library}`;
    await writeFile(environment.HEARTH_LOAD, `#!/bin/sh\n${settings} exec ${built('hearth-load')} "$@"\n`);
    await chmod(environment.HEARTH_LOAD, 0o755);
  };

  it('reads files into the memory of a GPU, bounced or directly', async () => {
    await useFakeGpu();
    const bounced = await load(['weights', '--verify', '--path', 'bounced']);
    assert.match(
      bounced.out,
      /^cuda:0 \(Fake GPU\): 293\.0 KiB in .*, verified\npath: bounced\nwhy not direct: .*off$/m,
    );
    const direct = await load(['weights', '--verify', '--path', 'direct']);
    assert.match(direct.out, /, verified\npath: direct\n$/);
  });

  it("names the machine's missing requirement, with the code of the error", async () => {
    environment.HEARTH_LOAD = join(directory, 'wrapped');
    const script = `#!/bin/sh\nHEARTH_CUDA_LIBRARY=${directory}/absent.so exec ${built('hearth-load')} "$@"\n`;
    await writeFile(environment.HEARTH_LOAD, script);
    await chmod(environment.HEARTH_LOAD, 0o755);
    const { code, err } = await load(['weights']);
    assert.notEqual(code, 0);
    assert.match(err, /^hearth: .*absent\.so.*install the NVIDIA driver/);
  });

  it('passes its options on, and file names that begin with a dash', async () => {
    await fakeLoad('echo {}; exit 1');
    await load(['--path', 'bounced', '--lanes', '4', '--slice-kib', '64', '--page-cache', '--', '-a', 'b']);
    assert.equal(
      await readFile(join(directory, 'words'), 'utf8'),
      '--json --device cuda:0 --path bounced --repeat 1 --lanes 4 --slice-kib 64 --page-cache ./-a b\n',
    );
  });

  it('shows each path that bytes took', async () => {
    const report = {
      device: 'cuda:0',
      model: 'Some GPU',
      bytes: 3 * 2 ** 20,
      seconds: 0.5,
      path: 'direct',
      directBytes: 2 * 2 ** 20,
      bouncedBytes: 2 ** 20,
      hostBytes: 0,
      whyNotDirect: 'bytes do not lie at multiples of 4096',
      verified: false,
    };
    await fakeLoad(`echo '${JSON.stringify(report)}'`);
    const { out } = await load(['weights']);
    assert.match(out, /^path: direct 2\.0 MiB, bounced 1\.0 MiB\nwhy not direct: bytes do not lie/m);
  });

  it('refuses the output of a broken program', async () => {
    await fakeLoad('echo nonsense');
    assert.match((await load(['weights'])).err, /an invalid report/);
    await fakeLoad('exit 3');
    assert.match((await load(['weights'])).err, /ended with status 3: it said nothing/);
    environment.HEARTH_LOAD = join(directory, 'absent');
    assert.match((await load(['weights'])).err, /make build/);
  });
});
