import assert from 'node:assert/strict';
import { chmod, mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { jsonLines, runCommand } from '../testing/fake_terminal.ts';

const port = { device: 'mlx5_0/1', gid: '10.0.0.7', gidIndex: 3, gidType: 'RoCEv2', pci: '0000:17:00.0', numaNode: 1 };
const report = {
  here: { ...port, mtuBytes: 4096, bitsPerSecond: 400e9 },
  there: { ...port, gid: '10.0.0.8', pci: '', numaNode: -1, mtuBytes: 1024, bitsPerSecond: 0 },
  mtuBytes: 1024,
  rows: [
    {
      bytes: 1 << 20,
      bytesPerSecond: 45e9,
      serverSecondsPerGigabyte: 0.0021,
      clientSecondsPerGigabyte: 0,
      answers: 1000,
      medianMicroseconds: 27.31,
      p99Microseconds: 41,
    },
  ],
};

describe('hearth bench rdma', () => {
  let directory: string;
  let environment: Record<string, string>;

  const bench = (...words: string[]) => runCommand(['bench', 'rdma', ...words], { environment, directory });
  /** A hearth-rdma-bench that records its arguments and then runs `script`. */
  const fakeBench = async (script: string) => {
    await writeFile(join(directory, 'bench'), `#!/bin/sh\necho "$@" > words\n${script}\n`);
    await chmod(join(directory, 'bench'), 0o755);
  };
  const words = () => readFile(join(directory, 'words'), 'utf8');

  beforeEach(async () => {
    directory = await mkdtemp(join(tmpdir(), 'hearth-bench-rdma-'));
    environment = { HEARTH_RDMA_BENCH: join(directory, 'bench') };
  });
  afterEach(() => rm(directory, { recursive: true }));

  it('shows both ports, the path, and a row for each size', async () => {
    await fakeBench(`echo '${JSON.stringify(report)}'`);
    const { code, out } = await bench('10.0.0.8:18600', '--device', 'mlx5_0', '--gid-index', '3');
    assert.equal(code, 0);
    assert.match(
      out,
      /^here {3}mlx5_0\/1, GID 3 10\.0\.0\.7 \(RoCEv2\), MTU 4096, 400 Gb\/s, PCI 0000:17:00\.0, NUMA node 1$/m,
    );
    assert.match(out, /^there {2}mlx5_0\/1, GID 3 10\.0\.0\.8 \(RoCEv2\), MTU 1024$/m);
    assert.match(out, /^path {3}packets of 1024 bytes/m);
    assert.match(out, /^1\.0 MiB +45\.000 +0\.002 +0\.000 +27\.3 +41\.0$/m);
    assert.match(await words(), /^--connect 10\.0\.0\.8:18600 --device mlx5_0 --gid-index 3 --sizes 4096,/);
  });

  it('prints JSON', async () => {
    await fakeBench(`echo '${JSON.stringify(report)}'`);
    assert.deepEqual(jsonLines((await bench('a:1', '--json')).out), [report]);
  });

  it("prints the server's address", async () => {
    await fakeBench('echo 10.0.0.8:40001');
    const { code, out } = await bench('--listen', '10.0.0.8:0', '--once');
    assert.equal(code, 0);
    assert.equal(out, 'listening on 10.0.0.8:40001\n');
    assert.equal(await words(), '--listen 10.0.0.8:0 --once\n');
  });

  it('passes on code and reason of a failure', async () => {
    await fakeBench('echo "hearth-rdma-bench: Unavailable: no packet comes back" >&2; exit 1');
    const { code, err } = await bench('a:1');
    assert.notEqual(code, 0);
    assert.equal(err, 'hearth: no packet comes back\n');
  });

  it('requires exactly one side', async () => {
    for (const both of [[], ['a:1', '--listen', 'b:2']]) {
      assert.match((await bench(...both)).err, /exactly one of the address of the server, --listen and --dataset/);
    }
  });
});
