import assert from 'node:assert/strict';
import { once } from 'node:events';
import { existsSync, linkSync, readdirSync, statSync, unlinkSync } from 'node:fs';
import { createServer } from 'node:net';
import { PassThrough } from 'node:stream';
import { type Server, status } from '@grpc/grpc-js';
import { createLogger, HearthError, silentLogger } from '@hearth/common';
import { callSocket } from '@hearth/common/grpc/testing';
import { TemporaryFolder, TestClock, until } from '@hearth/common/testing';
import {
  ControllerService as ControllerDefinition,
  type GetPluginCapabilitiesResponse,
  IdentityService as IdentityDefinition,
  NodeService as NodeDefinition,
  type NodePublishVolumeRequest,
  PluginCapability_Service_Type,
} from '../generated/csi/csi.ts';
import type { NodeService } from '../node/index.ts';
import { inlineContext, publishRequest } from '../testing/samples.ts';
import { addCsiServices, CallHandlers, Identity, SocketServer } from './index.ts';

describe('the server of the driver', () => {
  let folder: TemporaryFolder;
  let socket: string;
  let log: string;
  let publish: (request: NodePublishVolumeRequest, signal: AbortSignal) => Promise<object>;
  let handlers: CallHandlers;
  let options: ConstructorParameters<typeof CallHandlers>[0];
  let server: SocketServer;
  let clock: TestClock;

  beforeEach(async () => {
    folder = new TemporaryFolder('csi');
    socket = folder.file('deep/er/csi.sock');
    log = '';
    clock = new TestClock();
    const stream = new PassThrough().on('data', (part) => {
      log += part;
    });
    options = { logger: createLogger({ level: 'debug', format: 'json', stream }), deadlineMs: 110_000, clock };
    handlers = new CallHandlers(options);
    publish = async () => ({});
    const identity = new Identity({ version: '1.2.3', controller: false, ready: () => true });
    const node = {
      nodePublishVolume: (...args: Parameters<typeof publish>) => publish(...args),
    } as unknown as NodeService;
    const services = (grpc: Server) => addCsiServices(grpc, handlers, { identity, node, controller: undefined });
    server = new SocketServer({ socket, services, watchMs: 2_000, logger: silentLogger, clock });
    await server.listen();
  });
  afterEach(async () => {
    await server.close(1000);
    await folder.remove();
  });

  const info = (authority = 'localhost') => callSocket(socket, IdentityDefinition.getPluginInfo, {}, { authority });
  const nodePublish = (request: NodePublishVolumeRequest, deadlineMs = 300_000) =>
    callSocket(socket, NodeDefinition.nodePublishVolume, request, { deadlineMs });

  it('answers on a socket that only its owner may open', async () => {
    assert.equal(statSync(socket).mode & 0o777, 0o600);
    assert.deepEqual(await info(), { name: 'csi.hearth.storage', vendorVersion: '1.2.3', manifest: {} });
    assert.deepEqual(await callSocket(socket, IdentityDefinition.probe, {}), { ready: true });
  });

  it('says of capabilities only what it serves', async () => {
    const typesOf = ({ capabilities }: GetPluginCapabilitiesResponse) =>
      capabilities.map(({ type }) => (type?.$case === 'service' ? type.value.type : undefined));
    const { CONTROLLER_SERVICE, VOLUME_ACCESSIBILITY_CONSTRAINTS } = PluginCapability_Service_Type;
    const served = await callSocket(socket, IdentityDefinition.getPluginCapabilities, {});
    assert.deepEqual(typesOf(served), [VOLUME_ACCESSIBILITY_CONSTRAINTS]);
    const all = new Identity({ version: '', controller: true, ready: () => true }).getPluginCapabilities();
    assert.deepEqual(typesOf(all), [VOLUME_ACCESSIBILITY_CONSTRAINTS, CONTROLLER_SERVICE]);
    await assert.rejects(callSocket(socket, ControllerDefinition.controllerGetCapabilities, {}), {
      code: status.UNIMPLEMENTED,
    });
    await assert.rejects(
      callSocket(
        socket,
        NodeDefinition.nodeExpandVolume,
        NodeDefinition.nodeExpandVolume.requestDeserialize(Buffer.alloc(0)),
      ),
      { code: status.UNIMPLEMENTED, details: /NodeExpandVolume is not offered/ },
    );
  });

  it('gives the sentence and status of an error, and the code of our table', async () => {
    publish = async () => {
      throw new HearthError('OutOfSpace', 'no room on this node; raise the budget');
    };
    await assert.rejects(
      nodePublish(publishRequest('/t')),
      (error: { code: number; details: string; metadata: Map<string, string[]> }) => {
        assert.equal(error.code, status.RESOURCE_EXHAUSTED);
        assert.equal(error.details, 'no room on this node; raise the budget');
        assert.deepEqual(error.metadata.get('hearth-code'), ['OutOfSpace']);
        return true;
      },
    );
  });

  it('logs what was called and never secrets, contexts or mount options', async () => {
    const request = publishRequest('/kubelet/pods/1/mount', {
      secrets: { password: 'hunter2' },
      publishContext: { key: 'hunter2' },
      volumeContext: { ...inlineContext, 'csi.storage.k8s.io/serviceAccount.tokens': 'hunter2' },
    });
    if (request.volumeCapability?.accessType?.$case === 'mount') {
      request.volumeCapability.accessType.value.mountFlags = ['password=hunter2'];
    }
    await nodePublish(request);
    publish = async () => {
      throw new HearthError('Internal', 'a bug');
    };
    await assert.rejects(nodePublish(request), { code: status.INTERNAL });
    assert.doesNotMatch(log, /hunter2/);
    const lines = log
      .trim()
      .split('\n')
      .map((line) => JSON.parse(line));
    assert.deepEqual(
      lines.map(({ level, message, call, volumeId, targetPath }) => [level, message, call, volumeId, targetPath]),
      [
        ['info', 'call answered', 'NodePublishVolume', 'pvc-1', '/kubelet/pods/1/mount'],
        ['error', 'call failed', 'NodePublishVolume', 'pvc-1', '/kubelet/pods/1/mount'],
      ],
    );
    assert.match(lines[1].stack, /server\.test/);
  });

  it('ends a call at its own deadline or that of the caller, and aborts the work', async () => {
    const aborted: string[] = [];
    let begun = 0;
    publish = async (_, signal) => {
      begun++;
      await once(signal, 'abort');
      aborted.push(signal.reason.code);
      return {};
    };
    const late = assert.rejects(nodePublish(publishRequest('/t')), {
      code: status.DEADLINE_EXCEEDED,
      details: /make it again/,
    });
    await until('it is under way', () => begun === 1);
    await clock.advance(109_999);
    assert.deepEqual(aborted, []);
    await clock.advance(1);
    await late;
    assert.deepEqual(aborted, ['DeadlineExceeded']);
    // The time is also that of the connection: on a busy machine it may be over before the driver hears of the call.
    await until('it is under way in time', async () => {
      await assert.rejects(nodePublish(publishRequest('/t'), 1000), { code: status.DEADLINE_EXCEEDED });
      return begun > 1;
    });
    await until('its work is aborted', () => aborted.length === begun);
  });

  it('makes its socket again when the file is gone', async () => {
    unlinkSync(socket);
    await clock.advance(2_000);
    await until('there is another', () => existsSync(socket));
    assert.equal((await info()).vendorVersion, '1.2.3');
    assert.equal(statSync(socket).mode & 0o777, 0o600);
    await server.renew();
    assert.equal((await info()).vendorVersion, '1.2.3');
    assert.ok(server.listening);
  });

  it('removes its socket when it is closed, after the calls under way', async () => {
    let begun = false;
    const work = Promise.withResolvers<object>();
    publish = async () => {
      begun = true;
      return await work.promise;
    };
    const call = nodePublish(publishRequest('/t'));
    await until('it is under way', () => begun);
    const closed = server.close(300_000);
    work.resolve({});
    await call;
    await closed;
    assert.deepEqual(readdirSync(folder.file('deep/er')), []);
  });

  it('takes the socket of a process that was killed, and leaves one that answers', async () => {
    const other = new SocketServer({ socket, services: () => undefined, watchMs: 1000, logger: silentLogger });
    await assert.rejects(other.listen(), { code: 'InUse', message: /another process listens on/ });
    const stale = folder.file('stale.sock');
    // As after SIGKILL: the listener is gone and its file is not.
    const listener = createServer().listen(stale);
    await once(listener, 'listening');
    const kept = folder.file('kept.sock');
    linkSync(stale, kept);
    listener.close();
    const taking = new SocketServer({ socket: kept, services: () => undefined, watchMs: 1000, logger: silentLogger });
    await taking.listen();
    await taking.close(100);
    const long = new SocketServer({
      socket: `/${'x'.repeat(120)}`,
      services: () => undefined,
      watchMs: 1,
      logger: silentLogger,
    });
    await assert.rejects(long.listen(), { code: 'InvalidArgument' });
  });
});
