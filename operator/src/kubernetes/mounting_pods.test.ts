import assert from 'node:assert/strict';
import type { PersistentVolume, Pod } from '@hearth/common/kubernetes';
import { claimedVolume, MountingPods, podMounts } from './mounting_pods.ts';

const driver = 'csi.hearth.storage';

function pod(volumes: object[], fields: object = {}): Pod {
  return { metadata: { namespace: 'team', name: 'p' }, spec: { nodeName: 'n1', volumes, ...fields } } as Pod;
}

function volume(claim: string, cluster?: string, of = driver): PersistentVolume {
  const csi = { driver: of, volumeHandle: claim, ...(cluster === undefined ? {} : { volumeAttributes: { cluster } }) };
  return { spec: { csi, claimRef: { namespace: 'team', name: claim } } } as PersistentVolume;
}

const inline = (cluster?: string) => ({ name: 'v', csi: { driver, volumeAttributes: { dataset: 'd', cluster } } });
const ofClaim = (claimName: string) => ({ name: 'v', persistentVolumeClaim: { claimName } });
const template = { name: 'v', ephemeral: { volumeClaimTemplate: { spec: {} } } };

describe('mounts of a pod', () => {
  it('are inline volumes of ours and all claims, on a node', () => {
    const found = podMounts(pod([inline(), inline('models'), ofClaim('a'), template, { name: 'x', emptyDir: {} }]));
    assert.deepEqual(found, { node: 'n1', clusters: ['', 'models'], claims: ['a', 'p-v'] });
  });

  it('are none without such volumes, without a node, and after its end', () => {
    assert.equal(podMounts(pod([{ name: 'x', csi: { driver: 'other' } }])), undefined);
    assert.equal(podMounts(pod([inline()], { nodeName: undefined })), undefined);
    assert.equal(podMounts({ ...pod([inline()]), status: { phase: 'Succeeded' } } as Pod), undefined);
  });
});

describe('mounting pods', () => {
  let mounting: MountingPods;
  beforeEach(() => {
    mounting = new MountingPods();
    mounting.podChanged('team/inline', undefined, podMounts(pod([inline()])));
    mounting.podChanged('team/claimed', undefined, podMounts(pod([ofClaim('a')], { nodeName: 'n2' })));
  });

  it('are known by node, and by claim as soon as its volume is', () => {
    assert.deepEqual(mounting.on(), ['team/inline on n1']);
    mounting.volumeChanged('pv-1', undefined, claimedVolume(volume('a', 'models')));
    assert.deepEqual(mounting.on(), ['team/claimed on n2', 'team/inline on n1']);
    assert.deepEqual(mounting.on(['n2', 'n3']), ['team/claimed on n2']);
    assert.deepEqual(
      mounting.on(undefined, (cluster) => cluster === 'other'),
      [],
    );
    assert.equal(claimedVolume(volume('a', 'models', 'other.example.org')), undefined);
  });

  it('are forgotten with the pod, and with the last volume of the claim', () => {
    const ours = claimedVolume(volume('a'));
    for (const name of ['released', 'bound']) mounting.volumeChanged(name, undefined, ours);
    mounting.volumeChanged('released', ours, undefined);
    assert.deepEqual(mounting.on(['n2']), ['team/claimed on n2']);
    mounting.volumeChanged('bound', ours, undefined);
    mounting.podChanged('team/inline', podMounts(pod([inline()])), undefined);
    assert.deepEqual(mounting.on(), []);
  });
});
