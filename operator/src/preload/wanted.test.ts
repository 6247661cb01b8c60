import assert from 'node:assert/strict';
import { datasetView, manifest, observed, preloadObject } from './testing/fixtures.ts';
import { wantedOf } from './wanted.ts';

const later = 'cd'.repeat(32);
const datasets = [datasetView({ present: { manifest: later, revision: 'r2' } })];

describe('the revision that is preloaded', () => {
  const bound = { revisions: [{ dataset: 'd', manifest, revision: 'r1' }] };
  const manifests = (spec: object, scene: object) =>
    wantedOf(preloadObject(spec, bound), observed({ datasets, ...scene })).map((one) => one.manifest);

  it('stays with Once, and follows with Every', () => {
    assert.deepEqual(manifests({}, {}), [manifest]);
    assert.deepEqual(manifests({ revisions: 'Every' }, {}), [later]);
  });

  it('is that with which pods will start that wait for it', () => {
    const pods = (waiting: number) => ({ pods: { reason: '', waiting, released: 1 } });
    assert.deepEqual(manifests({}, pods(0)), [manifest], 'those that run have it');
    assert.deepEqual(manifests({}, pods(1)), [later]);
  });
});
