import assert from 'node:assert/strict';
import type { CachePreload } from '@hearth/common/resources';
import { isOutdated, whyUnplannable } from './group_facts.ts';
import { datasetOf } from './testing/objects.ts';

const ofNames = (...names: string[]) =>
  new Map(names.map((name) => [`team/${name}`, datasetOf(name, { mode: 'Wait' })] as const));

const why = (datasets: ReturnType<typeof ofNames>, ...former: string[]) =>
  whyUnplannable({ datasets, former: new Set(former) });

describe('facts of a group of pods', () => {
  it('let there be a plan for Datasets of one StorageCluster, up to 32 of them', () => {
    assert.equal(why(ofNames('a', 'b')), undefined);
    const many = ofNames(...Array.from({ length: 33 }, (_, index) => `d${index}`));
    assert.match(why(many) ?? '', /uses 33 Datasets/);
    const datasets = ofNames('a', 'b');
    const [, second] = datasets.values();
    Object.assign(second?.status ?? {}, { cluster: 'other' });
    assert.match(why(datasets) ?? '', /several StorageClusters: main, other/);
  });

  it('let there be none for a Dataset that is being deleted, whose bytes no agent brings any more', () => {
    const datasets = ofNames('a', 'b');
    const [, second] = datasets.values();
    Object.assign(second?.metadata ?? {}, { deletionTimestamp: '2026-01-01T00:00:00Z' });
    assert.equal(why(datasets), 'Dataset team/b is being deleted');
  });

  it('let there be none for volumes that keep to another revision', () => {
    assert.match(why(ofNames('a', 'b'), 'team/a') ?? '', /keeps to another revision of Dataset team\/a/);
  });

  it('do not go by what is reported of another revision, or of other Datasets', () => {
    const datasets = ofNames('a', 'b');
    const told = (revisions: Record<string, string> | undefined) => {
      const rows = Object.entries(revisions ?? {}).map(([dataset, manifest]) => ({ dataset, manifest, revision: '' }));
      const status = revisions === undefined ? undefined : { revisions: rows };
      return isOutdated({ status } as CachePreload, datasets);
    };
    const present = datasetOf('a', undefined).status?.manifest ?? '';
    assert.equal(isOutdated(undefined, datasets), false);
    assert.equal(told(undefined), false, 'nothing is told yet');
    assert.equal(told({ a: present, b: present }), false);
    assert.equal(told({ a: present, b: 'cd'.repeat(32) }), true);
    assert.equal(told({ a: present }), true, 'b was added');
  });
});
