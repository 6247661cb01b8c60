import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { existsSync, mkdirSync, readdirSync, readFileSync, statSync } from 'node:fs';
import { join } from 'node:path';
import { status } from '@grpc/grpc-js';
import { MiB, needsMounts, type Outcome, run, sha256, until, writeSample } from '@hearth/common/testing';
import { Cluster } from '@hearth/common/testing/agents';
import { CsiNode } from './csi_node.ts';
import { compileGd2fsCat } from './gd2fs_program.ts';

/** More than a pipe and one read of the program hold, so that it still has the file open when its first bytes are there. */
const size = 9 * MiB + 5;

describe('programs of pods with libgd2fs, by the driver and a real agent', () => {
  let cluster: Cluster;
  let node: CsiNode;
  let program: string;
  let digest: string;
  const outcomes: (Outcome | undefined)[] = [];

  before(async function () {
    needsMounts(this);
    cluster = await Cluster.start([]);
    const volumes = CsiNode.volumesDirectory(cluster);
    mkdirSync(join(volumes, 'run'), { recursive: true });
    await cluster.startHolder(['--volumes', volumes]);
    const socket = join(volumes, 'run/clients/clients.sock');
    await cluster.add('a', { flags: ['--volumes-directory', volumes, '--clients-socket', socket] });
    node = await CsiNode.start(cluster, 'a');
    program = await compileGd2fsCat(join(cluster.folder, 'program'));
    for (const name of ['model', 'secret']) {
      const origin = join(cluster.folder, `origin-${name}`);
      const digests = writeSample(origin, { weights: size });
      if (name === 'model') digest = digests.get('weights') ?? '';
      await cluster.json('a', 'dataset', 'add', `default.${name}`, origin);
      await cluster.json('a', 'warm', `default.${name}`);
    }
  });
  after(async () => {
    await node?.end('SIGKILL');
    await cluster?.close();
  });

  /** As the library finds them where the volume is mounted at /var/run/hearth. */
  const environment = (pod: string) => ({
    HEARTH_TOKEN_FILE: join(node.target(pod), 'token'),
    HEARTH_CLIENTS_SOCKET: join(node.target(pod), 'clients.sock'),
  });
  const read = (pod: string, path: string) =>
    run('sh', ['-c', '"$1" "$2" "$3" | sha256sum', 'sh', program, node.target(pod), path], {
      environment: { ...process.env, ...environment(pod) },
    });
  const readsRight = async (pod: string): Promise<void> => {
    const { stdout, stderr } = await read(pod, '/dataset/default.model/weights');
    assert.equal(stdout.slice(0, 64), digest, stderr);
  };
  const token = (pod: string) => readFileSync(join(node.target(pod), 'token'), 'utf8');

  /** True when a program that reads the file has it open itself. */
  async function readsByDescriptor(pod: string): Promise<boolean> {
    const child = spawn(program, [node.target(pod), '/dataset/default.model/weights'], {
      stdio: ['ignore', 'pipe', 'inherit'],
      env: { ...process.env, ...environment(pod) },
    });
    const exited = once(child, 'exit');
    await Promise.race([once(child.stdout, 'readable'), exited]);
    const folder = `/proc/${child.pid}/fd`;
    const found = readdirSync(folder).some((name) => statSync(join(folder, name)).size === size);
    child.stdout.resume();
    await exited;
    return found;
  }

  it('read the Datasets that the volume names, as an open file of the node, and no others', async () => {
    await node.publish('reader', { clientAccess: 'true', datasets: 'model' }, { readOnly: true });
    assert.equal(readFileSync(join(node.target('reader'), 'cluster'), 'utf8'), 'e2e');
    await readsRight('reader');
    assert.equal(await readsByDescriptor('reader'), true);
    const refused = await read('reader', '/dataset/default.secret/weights');
    assert.match(refused.stderr, /secret\/weights: Permission denied/);
    assert.equal(refused.stdout.slice(0, 64), sha256(Buffer.alloc(0)));
  });

  it('are given a new token by the next driver, and go on with the next agent', async () => {
    const former = token('reader');
    outcomes.push(await node.end('SIGKILL'));
    await cluster.agent('a').kill();
    await node.begin();
    await cluster.agent('a').start();
    await until('the token is renewed', () => token('reader') !== former);
    await until('the agent serves the dataset', async () => {
      return (await read('reader', '/dataset/default.model/weights')).stdout.slice(0, 64) === digest;
    });
    await until('files are passed again', () => readsByDescriptor('reader'));
  });

  it('get nothing for a Dataset that is not there, or a volume that they could write to', async () => {
    const missing = node.publish('early', { clientAccess: 'true', datasets: 'model,missing' }, { readOnly: true });
    await assert.rejects(missing, { code: status.NOT_FOUND, details: /default\/missing/ });
    const writable = node.publish('early', { clientAccess: 'true', datasets: 'model' });
    await assert.rejects(writable, { code: status.INVALID_ARGUMENT, details: /readOnly: true/ });
    assert.equal(existsSync(node.target('early')), false);
  });

  it('lose all of it with the volume, and no log has a token', async () => {
    await node.unpublish('reader');
    assert.equal(existsSync(node.target('reader')), false);
    assert.ok(!readFileSync('/proc/self/mountinfo', 'utf8').includes(` ${node.target('reader')}`));
    outcomes.push(await node.end('SIGTERM'));
    for (const outcome of outcomes) {
      assert.match(outcome?.stderr ?? '', /the driver is ready/);
      assert.doesNotMatch(`${outcome?.stdout}${outcome?.stderr}`, /hearth-token/);
    }
  });
});
