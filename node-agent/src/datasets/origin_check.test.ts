import assert from 'node:assert/strict';
import { HearthError, systemClock } from '@hearth/common';
import type { AgentContext } from '../context.ts';
import { CredentialCache } from '../credentials/index.ts';
import { testTimings } from '../testing/cluster.ts';
import { directorySource, FakeOrigin, fileRow } from '../testing/fake_origin.ts';
import { OriginCheck } from './origin_check.ts';

const signal = () => AbortSignal.timeout(300_000);

describe('origin check', () => {
  const origin = new FakeOrigin([fileRow('here', 1n), fileRow('changed', 1n, 'other bytes')]);
  const opened: (string | undefined)[] = [];
  const context = { clock: systemClock, timings: { ...testTimings, requestMs: 1 } } as AgentContext;
  // The dataset has credentials that have not arrived.
  const check = new OriginCheck(
    context,
    (_source, _revision, given) => {
      opened.push(given?.token);
      return origin;
    },
    new CredentialCache(() => true),
  );
  const listed = [fileRow('here', 1n), fileRow('changed', 1n), fileRow('gone', 1n)].map(
    ({ path, contentKey = '' }) => ({
      path,
      contentKey,
    }),
  );
  const lacking = async (sourceHasNone: boolean) => {
    const source = { ...directorySource, mirrors: { sources: [directorySource], credentialed: [0], sourceHasNone } };
    const revision = { dataset: 'd', manifest: 'm', source, revision: 'r1', createdAt: 0 };
    const files = (async function* () {
      yield listed;
    })();
    return (await check.lacking(revision, files, signal())).map(({ path }) => path);
  };

  it('needs no credentials when only mirrors have some', async () => {
    assert.deepEqual(await lacking(true), ['changed', 'gone']);
    assert.deepEqual(opened, [undefined]);
  });

  it('uses no other identity while the credentials of the first source are missing', async () => {
    opened.length = 0;
    await assert.rejects(lacking(false), (thrown) => HearthError.from(thrown).code === 'Unavailable');
    assert.deepEqual(opened, []);
  });
});
