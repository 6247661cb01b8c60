import assert from 'node:assert/strict';
import { podDatasets, type VolumeFacts } from './pod_datasets.ts';
import { claimed, claimOf, datasetOf, inline, known, podOf, volumeOf } from './testing/objects.ts';

const names = (found: ReturnType<typeof podDatasets>) => found.datasets.map(({ metadata }) => metadata.name);

describe('Datasets of a pod', () => {
  const datasets = ['a', 'b', 'c', 'd'].map((name) => datasetOf(name, undefined));
  const source = { apiGroup: 'hearth.storage', kind: 'Dataset', name: 'd' };
  const template = { spec: { accessModes: ['ReadOnlyMany'], resources: {}, dataSourceRef: source } };

  it('are found inline, behind claims with and without a volume, and in templates, each once', () => {
    const pod = podOf('web', [
      inline('a'),
      claimed('unbound'),
      claimed('bound'),
      { name: 'scratch', ephemeral: { volumeClaimTemplate: template } },
      claimed('again'),
      { name: 'tmp', emptyDir: {} },
    ]);
    const claims = {
      'team/unbound': claimOf('b'),
      'team/bound': claimOf(undefined, 'pv-1'),
      'team/again': claimOf('a'),
    };
    const found = podDatasets(pod, 'team', known({ claims, volumes: { 'pv-1': volumeOf('team.c') }, datasets }));
    assert.deepEqual(names(found), ['a', 'b', 'c', 'd']);
    assert.deepEqual([found.missing, found.foreign], [[], false]);
  });

  it('are what the volume says when it says something else than its claim', () => {
    const claims = { 'team/x': claimOf('a', 'pv-1') };
    const facts = known({ claims, volumes: { 'pv-1': volumeOf('team.b') }, datasets });
    assert.deepEqual(names(podDatasets(podOf('web', [claimed('x')]), 'team', facts)), ['b']);
  });

  it('name those of which a volume keeps to another revision than the present one', () => {
    const present = datasets[0]?.status?.manifest ?? '';
    const ofRevision = (name: string, revision: string) => ({
      name: `${name}-${revision.slice(0, 2)}`,
      csi: { driver: 'csi.hearth.storage', volumeAttributes: { dataset: name, revision } },
    });
    const pod = podOf('web', [ofRevision('a', present), ofRevision('b', 'ef'.repeat(32)), inline('c'), claimed('old')]);
    const ours = { ...volumeOf('team.d').ours, revision: 'ef'.repeat(32) } as NonNullable<VolumeFacts['ours']>;
    const facts = known({ claims: { 'team/old': claimOf('d', 'pv-1') }, volumes: { 'pv-1': { ours } }, datasets });
    const found = podDatasets(pod, 'team', facts);
    assert.deepEqual(
      [names(found), found.former],
      [
        ['a', 'b', 'c', 'd'],
        ['b', 'd'],
      ],
    );
  });

  it('name what is missing on the way to them', () => {
    const pod = podOf('web', [claimed('none'), claimed('bound'), claimed('asks'), inline('gone')]);
    const claims = { 'team/bound': claimOf('a', 'pv-9'), 'team/asks': claimOf('later') };
    assert.deepEqual(podDatasets(pod, 'team', known({ claims, datasets })).missing, [
      { kind: 'PersistentVolumeClaim', key: 'team/none' },
      { kind: 'PersistentVolume', key: 'pv-9' },
      { kind: 'Dataset', key: 'team/later' },
      { kind: 'Dataset', key: 'team/gone' },
    ]);
  });

  it('are none behind volumes of others and of other namespaces', () => {
    const pod = podOf('web', [claimed('disk'), claimed('shared'), claimed('unbound')]);
    const claims = {
      'team/disk': claimOf(undefined, 'ebs'),
      'team/shared': claimOf(undefined, 'shared'),
      'team/unbound': claimOf(undefined),
    };
    const volumes = { ebs: { ours: undefined }, shared: volumeOf('models.a') };
    const found = podDatasets(pod, 'team', known({ claims, volumes, datasets }));
    assert.deepEqual(found, { datasets: [], missing: [], foreign: true, former: [] });
  });
});
