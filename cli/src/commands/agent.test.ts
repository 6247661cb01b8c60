import assert from 'node:assert/strict';
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { AgentConfig } from '@hearth/node-agent/config';
import { runCommand } from '../testing/fake_terminal.ts';

describe('hearth agent', () => {
  let directory: string;
  let secretFile: string;
  before(async () => {
    directory = await mkdtemp(join(tmpdir(), 'hearth-agent-'));
    secretFile = join(directory, 'secret');
    await writeFile(secretFile, 'a secret of many bytes');
  });
  after(() => rm(directory, { recursive: true }));

  it('gives flags precedence over variables', async () => {
    const started: AgentConfig[] = [];
    const words = [
      'agent',
      '--node',
      'n1',
      '--secret-file',
      secretFile,
      '--zone',
      'z',
      '--cache-directories',
      '/a=1GiB,/b',
    ];
    const outcome = await runCommand([...words, '--cache-directories', '/c', '--labels', 'a=1', '--labels', 'b=2'], {
      environment: { HEARTH_ZONE: 'other', HEARTH_RACK: 'r', HEARTH_CONFIG: '' },
      runAgent: async (config) => {
        started.push(config);
      },
    });
    assert.deepEqual(outcome, { code: 0, out: '', err: '' });
    const [config] = started;
    assert.equal(config?.node, 'n1');
    assert.equal(config?.zone, 'z');
    assert.equal(config?.rack, 'r');
    assert.deepEqual(config?.labels, { a: '1', b: '2' });
    assert.deepEqual(
      config?.cache.directories.map((one) => one.path),
      ['/a', '/b', '/c'],
    );
  });

  it('prints the configuration without the secret and exits', async () => {
    const outcome = await runCommand(['agent', '--print-config', '--secret-file', secretFile], {
      runAgent: () => Promise.reject(new Error('started')),
    });
    assert.equal(outcome.code, 0);
    assert.match(outcome.out, /^cluster: hearth$/m);
    assert.ok(!outcome.out.includes('a secret of many bytes'));
  });

  it('has a flag for every setting but the secret', async () => {
    const { out } = await runCommand(['agent', '--help']);
    assert.match(out, /--store <value>/);
    assert.match(out, /--wire-listen <values>/);
    assert.ok(!/--secret\s/.test(out));
  });

  it('exits with the code of a refused setting', async () => {
    const outcome = await runCommand(['agent', '--secret-file', secretFile, '--health-listen', 'nonsense']);
    assert.equal(outcome.code, 2);
    assert.match(outcome.err, /^hearth: health\.listen \(flag --health-listen\) must be /);
  });

  it('reports a failed start with its code', async () => {
    const { HearthError } = await import('@hearth/common');
    const outcome = await runCommand(['agent', '--secret-file', secretFile], {
      runAgent: () => Promise.reject(new HearthError('InUse', 'the port 7527 is taken; stop the other agent')),
    });
    assert.deepEqual(outcome, { code: 9, out: '', err: 'hearth: the port 7527 is taken; stop the other agent\n' });
  });
});
