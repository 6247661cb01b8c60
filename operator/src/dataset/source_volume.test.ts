import assert from 'node:assert/strict';
import { plan } from './plan.ts';
import { type ClaimedScratch, sourceVolume } from './source_volume.ts';
import { statusOf } from './status.ts';
import { dataset, observed } from './testing/fixtures.ts';

const ofClaim = dataset({ source: { volume: { claimName: 'runs', path: 'models/a' } } });

function volume(fields: Partial<ClaimedScratch> = {}): ClaimedScratch {
  const claim = 'team/runs';
  return { name: 'pvc-1', claim, cluster: 'main', scratch: true, phase: 'Bound', deleting: false, ...fields };
}

describe('the volume of a Dataset', () => {
  const given = (...volumes: ClaimedScratch[]) => observed({ volume: sourceVolume(ofClaim, volumes) });
  const ready = (...volumes: ClaimedScratch[]) => {
    const condition = statusOf(ofClaim, given(...volumes)).conditions?.find(({ type }) => type === 'Ready');
    return [condition?.reason, condition?.message];
  };

  it('is the one of the claim in its namespace, which agents know by the name of the object', () => {
    const [action] = plan(ofClaim, given(volume({ name: 'pvc-0', claim: 'other/runs' }), volume()));
    assert.equal(action?.kind, 'list');
    assert.deepEqual(action?.kind === 'list' && action.registration.source.kind, {
      $case: 'volume',
      value: { name: 'pvc-1', path: 'models/a' },
    });
    assert.equal(sourceVolume(dataset(), [volume()]), undefined);
  });

  it('is waited for until its claim is bound', () => {
    for (const lacking of [
      volume({ claim: 'other/runs' }),
      volume({ phase: 'Released' }),
      volume({ deleting: true }),
    ]) {
      assert.deepEqual(ready(lacking), [
        'ClaimNotFound',
        'waits for the claim team/runs to be bound: kubectl describe pvc says why it is not',
      ]);
      assert.deepEqual(plan(ofClaim, given(lacking)), []);
    }
  });

  it('is a scratch volume of the same StorageCluster', () => {
    assert.equal(ready(volume({ scratch: false }))[0], 'ClaimUnusable');
    assert.match(ready(volume({ cluster: 'second' })).join(), /^ClaimUnusable,.*kept by StorageCluster second/);
    assert.equal(ready(volume())[0], 'Listing');
  });

  it('waits until every agent knows volumes as sources', () => {
    const agents = { connected: true, dataset: undefined, withoutVolumes: ['n2'] };
    const status = statusOf(ofClaim, { ...given(volume()), agents });
    const condition = status.conditions?.find(({ type }) => type === 'Ready');
    assert.equal(condition?.reason, 'AgentsTooOld');
    assert.match(condition?.message ?? '', /n2 .*no Datasets of volumes/);
  });
});
