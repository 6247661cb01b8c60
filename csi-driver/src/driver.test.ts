import assert from 'node:assert/strict';
import { execFileSync, spawn } from 'node:child_process';
import { once } from 'node:events';
import { existsSync, mkdirSync, readdirSync, readFileSync, statSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { status } from '@grpc/grpc-js';
import { silentLogger } from '@hearth/common';
import { callSocket } from '@hearth/common/grpc/testing';
import { needsRoot, TemporaryFolder, until } from '@hearth/common/testing';
import { readConfiguration } from './configuration.ts';
import { Driver } from './driver.ts';
import { IdentityService, NodeService } from './generated/csi/csi.ts';
import { RegistrationService } from './generated/kubelet/pluginregistration/api.ts';
import { recordId } from './records/index.ts';
import { FakeAgent } from './testing/fake_agent.ts';
import { inlineContext, manifest, published, publishRequest } from './testing/samples.ts';

const program = join(import.meta.dirname, '../bin/hearth-csi-node');

describe('the driver on a node', () => {
  let folder: TemporaryFolder;
  let agent: FakeAgent;
  let flags: string[];
  let socket: string;
  let driver: Driver | undefined;

  before(function () {
    needsRoot(this);
  });
  beforeEach(async () => {
    folder = new TemporaryFolder('csi');
    socket = folder.file('kubelet/plugins/csi.hearth.storage/csi.sock');
    flags = ['--node', 'n1', '--state-directory', folder.file('state'), '--kubelet-directory', folder.file('kubelet')];
    agent = new FakeAgent(folder.file('state'), 'c');
    await agent.start();
    mkdirSync(folder.file('kubelet/pods/1'), { recursive: true });
    mkdirSync(folder.file('kubelet/pods/2'), { recursive: true });
    makeRevision('a');
    agent.publish = () => published(dataPath('a'), manifest('a'));
  });
  afterEach(async () => {
    await driver?.close();
    driver = undefined;
    agent?.stop();
    await folder?.remove();
  });

  const dataPath = (digit: string) => folder.file('state/c/mounts', manifest(digit), 'view');

  /** As an agent makes it: a bind mount of a view. */
  function makeRevision(digit: string): void {
    const view = folder.file('views', digit);
    mkdirSync(view, { recursive: true });
    writeFileSync(join(view, 'weights'), `bytes of ${digit}`);
    mkdirSync(dataPath(digit), { recursive: true });
    execFileSync('mount', ['--bind', view, dataPath(digit)]);
  }

  async function start(): Promise<void> {
    driver = new Driver(readConfiguration(flags, {}), silentLogger);
    await driver.start();
  }

  const target = (pod: string) => folder.file('kubelet/pods', pod, 'mount');
  const publish = (pod: string) =>
    callSocket(socket, NodeService.nodePublishVolume, publishRequest(target(pod), { volumeContext: inlineContext }));
  const unpublish = (pod: string) =>
    callSocket(socket, NodeService.nodeUnpublishVolume, { volumeId: 'pvc-1', targetPath: target(pod) });
  const stats = (pod: string) =>
    callSocket(socket, NodeService.nodeGetVolumeStats, {
      volumeId: 'pvc-1',
      volumePath: target(pod),
      stagingTargetPath: '',
    });
  /** Its socket is there a moment before it takes calls. */
  const listens = () => until('it listens', () => callSocket(socket, IdentityService.probe, {}).catch(() => undefined));
  const read = (pod: string) => readFileSync(join(target(pod), 'weights'), 'utf8');
  const recordNames = () => readdirSync(folder.file('state/c/published'));

  it('publishes into two pods what the agent made readable, and removes it again', async () => {
    await start();
    await Promise.all([publish('1'), publish('2')]);
    await publish('1');
    for (const pod of ['1', '2']) {
      assert.equal(read(pod), 'bytes of a');
      assert.throws(() => writeFileSync(join(target(pod), 'new'), ''), { code: 'EROFS' });
    }
    assert.deepEqual(agent.requests, [
      { dataset: 'team.model', manifest: '', mapsIds: false },
      { dataset: 'team.model', manifest: '', mapsIds: false },
    ]);
    const record = JSON.parse(readFileSync(folder.file('state/c/published', `${recordId(target('1'))}.json`), 'utf8'));
    assert.deepEqual(record.pod, { namespace: 'team', name: 'reader-0', uid: '6a0e' });
    assert.equal((await stats('1')).usage[0]?.used, 12_345_678_901_234n);
    for (const pod of ['1', '1', '2']) await unpublish(pod);
    assert.deepEqual(recordNames(), []);
    assert.equal(existsSync(target('1')), false);
    await assert.rejects(stats('1'), { code: status.NOT_FOUND });
  });

  it('keeps volumes, gives their sizes and unpublishes while the agent is down, but publishes nothing', async () => {
    await start();
    await publish('1');
    agent.stop();
    assert.equal(read('1'), 'bytes of a');
    assert.equal((await stats('1')).usage[1]?.used, 7n);
    await publish('1');
    await assert.rejects(publish('2'), {
      code: status.FAILED_PRECONDITION,
      details: /no agent of a StorageCluster runs on node n1, and of c only folders are left; .*kubectl/,
    });
    assert.equal(existsSync(target('2')), false);
    await unpublish('1');
    await unpublish('2');
    assert.deepEqual(recordNames(), []);
    await agent.start();
    await publish('2');
    assert.equal(read('2'), 'bytes of a');
  });

  it('keeps what is published when it is restarted, and forgets it when the node is', async () => {
    await start();
    await publish('1');
    await driver?.close();
    await start();
    assert.equal(recordNames().length, 1);
    assert.equal((await stats('1')).usage[0]?.used, 12_345_678_901_234n);
    await driver?.close();
    // Power takes every mount and leaves the records.
    execFileSync('umount', [target('1')]);
    await start();
    assert.deepEqual(recordNames(), []);
    makeRevision('b');
    agent.publish = () => published(dataPath('b'), manifest('b'));
    await publish('1');
    assert.equal(read('1'), 'bytes of b');
  });

  it('gives a pod client access, a new token at each start, and says no token in its log', async () => {
    const { dataset: _, ...pod } = inlineContext;
    const volumeContext = { ...pod, clientAccess: 'true', datasets: 'model' };
    agent.datasets.set('team.model', { bytes: 1n, manifest: manifest('a'), message: '' });
    mkdirSync(folder.file('state/c/run/clients'));
    const logged: string[] = [];
    const log = (...words: unknown[]) => void logged.push(JSON.stringify(words));
    const logger = { ...silentLogger, log, debug: log, info: log, warn: log, error: log };
    driver = new Driver(readConfiguration(flags, {}), logger);
    await driver.start();
    const request = publishRequest(target('1'), { volumeContext, readonly: true });
    await callSocket(socket, NodeService.nodePublishVolume, request);
    const text = (name: string) => readFileSync(join(target('1'), name), 'utf8');
    assert.equal(text('addresses'), 'gd2fs://10.0.0.1:7527,gd2fs://10.0.0.2:7527');
    assert.equal(text('cluster'), 'c');
    // The agent may make its socket anew: the folder is the same.
    writeFileSync(folder.file('state/c/run/clients/clients.sock'), 'socket');
    assert.equal(text('clients.sock'), 'socket');
    assert.equal(statSync(join(target('1'), 'token')).mode & 0o777, 0o444);
    assert.throws(() => writeFileSync(join(target('1'), 'agent/new'), ''), { code: 'EROFS' });
    const former = text('token');
    await driver.close();
    driver = new Driver(readConfiguration(flags, {}), logger);
    await driver.start();
    await until('it is renewed', () => text('token') !== former);
    assert.ok(((await stats('1')).usage[0]?.total ?? 0n) <= 1_048_576n);
    // Refused while a renewal is under way, and made again as the kubelet does.
    await until('it is unpublished', () =>
      unpublish('1')
        .then(() => true)
        .catch(() => false),
    );
    assert.equal(existsSync(target('1')), false);
    assert.deepEqual(readdirSync(folder.file('state/c/client-access')), []);
    assert.ok(logged.length > 0 && !logged.some((line) => line.includes('hearth-token')));
  });

  it('reports to the kubelet where it is', async () => {
    await start();
    const registry = folder.file('kubelet/plugins_registry/csi.hearth.storage-reg.sock');
    const info = await callSocket(registry, RegistrationService.getInfo, {});
    assert.equal(info.endpoint, socket);
    assert.equal((await callSocket(info.endpoint, NodeService.nodeGetInfo, {})).nodeId, 'n1');
    await driver?.close();
    driver = undefined;
    assert.equal(existsSync(registry), false);
    assert.equal(existsSync(socket), false);
  });

  it('publishes after it was killed in the middle of a publish', async () => {
    let asked = () => {};
    const asking = new Promise<void>((resolve) => {
      asked = resolve;
    });
    agent.publish = async () => {
      asked();
      return await new Promise(() => undefined);
    };
    const child = spawn(program, flags, { stdio: ['ignore', 'ignore', 'ignore'] });
    // Heard of from the beginning: it may be over before the call is.
    const exited = once(child, 'exit');
    await listens();
    const cut = publish('1');
    await Promise.race([asking, cut]);
    child.kill('SIGKILL');
    await assert.rejects(cut, { code: status.UNAVAILABLE });
    await exited;
    agent.publish = () => published(dataPath('a'), manifest('a'));
    await start();
    await publish('1');
    assert.equal(read('1'), 'bytes of a');
  });

  it('is a program that explains itself and ends in order', async () => {
    assert.match(execFileSync(program, ['--help'], { encoding: 'utf8' }), /^Usage: hearth-csi-node/);
    assert.match(execFileSync(program, ['--version'], { encoding: 'utf8' }), /^\d+\.\d+\.\d+\n$/);
    assert.throws(() => execFileSync(program, ['--node', ''], { stdio: 'pipe' }), {
      status: 2,
      stderr: Buffer.from('hearth-csi-node: --node (HEARTH_NODE) must be the name of a node in Kubernetes\n'),
    });
    const child = spawn(program, flags, { stdio: ['ignore', 'ignore', 'ignore'] });
    await listens();
    child.kill('SIGTERM');
    assert.deepEqual(await once(child, 'exit'), [0, null]);
    assert.equal(existsSync(socket), false);
  });
});
