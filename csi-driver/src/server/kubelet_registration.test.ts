import assert from 'node:assert/strict';
import { existsSync, statSync, unlinkSync } from 'node:fs';
import { silentLogger } from '@hearth/common';
import { callSocket } from '@hearth/common/grpc/testing';
import { TemporaryFolder, TestClock, until } from '@hearth/common/testing';
import { RegistrationService } from '../generated/kubelet/pluginregistration/api.ts';
import { CallHandlers } from './call_handlers.ts';
import { KubeletRegistration } from './kubelet_registration.ts';

describe('KubeletRegistration', () => {
  let folder: TemporaryFolder;
  let socket: string;
  let registration: KubeletRegistration;
  let clock: TestClock;

  beforeEach(async () => {
    folder = new TemporaryFolder('csi');
    clock = new TestClock();
    socket = folder.file('plugins_registry/csi.hearth.storage-reg.sock');
    registration = new KubeletRegistration({
      directory: folder.file('plugins_registry'),
      endpoint: '/var/lib/kubelet/plugins/csi.hearth.storage/csi.sock',
      handlers: new CallHandlers({ logger: silentLogger, deadlineMs: 300_000 }),
      watchMs: 2_000,
      retryMs: 10_000,
      logger: silentLogger,
      clock,
    });
    await registration.start();
  });
  afterEach(async () => {
    await registration.close();
    await folder.remove();
  });

  const ask = () => callSocket(socket, RegistrationService.getInfo, {});
  const tell = (pluginRegistered: boolean, error = '') =>
    callSocket(socket, RegistrationService.notifyRegistrationStatus, { pluginRegistered, error });
  // By its time as well: the number of a file that was removed is soon another one's.
  const identity = () => {
    const found = statSync(socket, { bigint: true, throwIfNoEntry: false });
    return found && `${found.ino}:${found.ctimeNs}`;
  };

  it('answers what the kubelet asks, and hears what it answers', async () => {
    assert.equal(statSync(socket).mode & 0o777, 0o600);
    assert.deepEqual(await ask(), {
      type: 'CSIPlugin',
      name: 'csi.hearth.storage',
      endpoint: '/var/lib/kubelet/plugins/csi.hearth.storage/csi.sock',
      supportedVersions: ['1.0.0'],
    });
    assert.equal(registration.registered, false);
    await tell(true);
    assert.equal(registration.registered, true);
  });

  it('registers again when its socket vanishes, as a kubelet that cleans up leaves it', async () => {
    await tell(true);
    unlinkSync(socket);
    await clock.advance(2_000);
    await until('there is another', () => existsSync(socket));
    assert.equal((await ask()).name, 'csi.hearth.storage');
  });

  it('registers again when the kubelet refuses', async () => {
    const before = identity();
    await tell(false, 'no such endpoint');
    assert.equal(registration.registered, false);
    await clock.advance(9_000);
    assert.equal(identity(), before);
    await clock.advance(1_000);
    await until('there is another', () => ![before, undefined].includes(identity()));
    await tell(true);
    assert.equal(registration.registered, true);
  });

  it('removes itself when it ends', async () => {
    await tell(false, 'refused');
    await registration.close();
    await clock.advance(20_000);
    assert.equal(existsSync(socket), false);
  });
});
