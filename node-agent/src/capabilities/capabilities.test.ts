import assert from 'node:assert/strict';
import { chmod, mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { HearthError, silentLogger } from '@hearth/common';
import { settle, TestClock, until } from '@hearth/common/testing';
import type { Probe } from '@hearth/engine';
import { Capabilities } from './capabilities.ts';
import { nativeProbes } from './probe.ts';
import { readCapabilities } from './read.ts';

const row = (name: string, status: Probe['status'], detail = `${name} is ${status}`, advice = ''): Probe => ({
  name,
  status,
  detail,
  advice,
});
const everything = [
  row('fuse', 'ok'),
  row('fuse passthrough', 'ok'),
  row('huge pages', 'ok'),
  row('rdma mlx5_0', 'ok'),
  row('verbs', 'ok'),
  row('gpu', 'ok'),
  row('cuda', 'ok'),
  row('gpu path', 'ok'),
  row('budget', 'ok'),
];
const changing = (changed: Probe) => [...everything.filter((one) => one.name !== changed.name), changed];
const of = (rows: Probe[], name: string) => readCapabilities(rows).find((one) => one.name === name);

describe('capabilities', () => {
  it('are ready when all requirements are present', () => {
    assert.deepEqual(readCapabilities(everything), [
      { name: 'fuse', ready: true, reason: '' },
      { name: 'passthrough', ready: true, reason: '' },
      { name: 'huge-pages', ready: true, reason: '' },
      { name: 'rdma', ready: true, reason: '' },
      { name: 'gpu-direct', ready: true, reason: '' },
      { name: 'budget', ready: true, reason: '' },
    ]);
  });

  it('give reason and advice for missing requirements', () => {
    const absent = row('fuse passthrough', 'missing', 'the kernel does not offer it', 'Run Linux 6.9.');
    assert.deepEqual(of(changing(absent), 'passthrough'), {
      name: 'passthrough',
      ready: false,
      reason: 'the kernel does not offer it. Run Linux 6.9.',
    });
    assert.match(
      of(changing(row('gpu path', 'degraded', 'bounced: nvidia-fs is not loaded')), 'gpu-direct')?.reason ?? '',
      /bounced/,
    );
    assert.equal(of(changing(row('gpu path', 'degraded')), 'gpu-direct')?.ready, false);
    assert.equal(of(changing(row('huge pages', 'degraded')), 'huge-pages')?.ready, false);
    assert.equal(of(changing(row('budget', 'degraded')), 'budget')?.ready, false);
    assert.equal(of(changing(row('fuse', 'missing')), 'fuse')?.ready, false);
  });

  it('are ready with limits when a requirement is degraded', () => {
    const limited = row('fuse passthrough', 'degraded', 'not for /tmp', 'Use ext4.');
    assert.deepEqual(of(changing(limited), 'passthrough'), {
      name: 'passthrough',
      ready: true,
      reason: 'not for /tmp. Use ext4.',
    });
  });

  it('need one RDMA device, not all', () => {
    assert.equal(of([...everything, row('rdma mlx5_1', 'missing')], 'rdma')?.ready, true);
    const none = everything.filter((one) => !one.name.startsWith('rdma'));
    assert.equal(of([...none, row('rdma', 'missing', 'no device')], 'rdma')?.reason, 'no device');
    assert.match(of([], 'rdma')?.reason ?? '', /not probed/);
  });

  it('are probed periodically in the background, and kept while probing fails', async () => {
    let answer: Probe[] | undefined = everything;
    let looks = 0;
    const probe = async () => {
      looks++;
      if (answer === undefined) throw new HearthError('Internal', 'the program crashed');
      return answer;
    };
    const clock = new TestClock();
    const capabilities = new Capabilities(probe, 600_000, silentLogger, clock);
    assert.deepEqual(capabilities.all(), [], 'the first look is not waited for');
    await settle();
    assert.ok(capabilities.all().every((one) => one.ready) && capabilities.all().length === 6);
    answer = undefined;
    await clock.advance(1_200_000);
    assert.equal(looks, 3);
    assert.ok(capabilities.all().every((one) => one.ready));
    answer = changing(row('gpu', 'missing'));
    await clock.advance(600_000);
    assert.ok(capabilities.all().some((one) => !one.ready));
    await capabilities.close();
    await clock.advance(600_000);
    assert.equal(looks, 4);
  });

  it('give the reason while no probe has succeeded, and end during a probe', async () => {
    const failing = new Capabilities(() => Promise.reject(new Error('no such program')), 1_000, silentLogger);
    await until(() => failing.all().length === 6);
    assert.ok(failing.all().every((one) => !one.ready && one.reason === 'no such program'));
    await failing.close();
    const hanging = new Capabilities(
      (signal) => new Promise((_, reject) => signal.addEventListener('abort', () => reject(signal.reason))),
      1_000,
      silentLogger,
    );
    await hanging.close();
  });

  it('come from the program that the environment names', async () => {
    const folder = await mkdtemp(join(tmpdir(), 'hearth-probe-'));
    const program = join(folder, 'hearth-probe');
    await writeFile(program, `#!/bin/sh\necho '${JSON.stringify(row('gpu', 'ok'))}'\n`);
    await chmod(program, 0o755);
    const run = { directories: [], deadlineSeconds: 60, signal: AbortSignal.timeout(300_000) };
    assert.deepEqual(await nativeProbes({ ...run, environment: { HEARTH_PROBE: program } }), [row('gpu', 'ok')]);
    await rm(folder, { recursive: true });
  });
});
