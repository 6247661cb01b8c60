import assert from 'node:assert/strict';
import { HearthError, type Logger, silentLogger } from '@hearth/common';
import { TestClock, until } from '@hearth/common/testing';
import { CsiError } from '../csi_error.ts';
import { AccessRenewal } from './access_renewal.ts';
import type { AccessRecord } from './client_access.ts';

describe('AccessRenewal', () => {
  let clock: TestClock;
  let targets: string[];
  let renewed: string[];
  let failure: Error | undefined;
  let warnings: string[];
  let clusterOf: (target: string) => string;
  let slow: { target: string; until: Promise<void> } | undefined;
  beforeEach(() => {
    clusterOf = () => 'c';
    slow = undefined;
    clock = new TestClock();
    targets = ['/one', '/two'];
    renewed = [];
    failure = undefined;
    warnings = [];
  });

  function renewal(): AccessRenewal {
    const warn = (message: string) => void warnings.push(message);
    return new AccessRenewal({
      records: {
        all: async () =>
          targets.map((target) => ({
            cluster: clusterOf(target),
            id: target,
            record: { id: target, target } as AccessRecord,
          })),
      },
      renew: async (target) => {
        if (target === slow?.target) await slow.until;
        if (failure !== undefined) throw failure;
        renewed.push(target);
      },
      everyMs: 5_000,
      renewMs: 300_000,
      logger: { ...silentLogger, warn } as Logger,
      clock,
    });
  }
  const taken = (): string[] => renewed.splice(0);

  it('renews every folder at the start, which a restart may have kept from it, then each in its time', async () => {
    const renewing = renewal();
    await renewing.check();
    assert.deepEqual(taken(), ['/one', '/two']);
    targets.push('/three');
    await renewing.check();
    assert.deepEqual(taken(), ['/three']);
    await clock.advance(299_999);
    await renewing.check();
    assert.deepEqual(taken(), []);
    await clock.advance(1);
    await renewing.check();
    assert.deepEqual(taken(), ['/one', '/two', '/three']);
    await renewal().check();
    assert.deepEqual(taken(), ['/one', '/two', '/three']);
  });

  it('tries again at each look, and says each failure once', async () => {
    const renewing = renewal();
    failure = new HearthError('Unavailable', 'the agent is away');
    for (let look = 0; look < 3; look++) await renewing.check();
    assert.equal(warnings.length, 2, 'one a folder');
    failure = undefined;
    await renewing.check();
    assert.deepEqual(taken(), ['/one', '/two']);
    failure = new HearthError('Unavailable', 'the agent is away');
    await clock.advance(300_000);
    await renewing.check();
    assert.equal(warnings.length, 4);
  });

  it('says nothing of a folder that is being published or unpublished', async () => {
    failure = new CsiError('ABORTED', 'under way');
    await renewal().check();
    assert.deepEqual(warnings, []);
  });

  it('lets the agent of one cluster hold up no pods of another', async () => {
    const { promise, resolve } = Promise.withResolvers<void>();
    clusterOf = (target) => target;
    slow = { target: '/one', until: promise };
    const looking = renewal().check();
    await until(() => renewed.includes('/two'));
    resolve();
    await looking;
    assert.deepEqual(taken(), ['/two', '/one']);
  });

  it('looks every so often until it is closed', async () => {
    const renewing = renewal();
    renewing.start('now');
    await clock.advance(0);
    assert.deepEqual(taken(), ['/one', '/two']);
    targets = ['/four'];
    await clock.advance(5_000);
    assert.deepEqual(taken(), ['/four']);
    await renewing.close();
    await clock.advance(600_000);
    assert.deepEqual(taken(), []);
  });
});
