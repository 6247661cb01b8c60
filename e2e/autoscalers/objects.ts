// Prints what the operator makes for the StorageCluster `models`, as JSON for autoscalers_test.go: the DaemonSets of two
// node groups, and a volume.
import { writeFileSync } from 'node:fs';
import type { StorageCluster } from '@hearth/common/resources';
import { dataset, readyStatus } from '../../operator/src/dataset/testing/fixtures.ts';
import { planClaim } from '../../operator/src/provisioner/claim_plan.ts';
import { classView, pendingClaim } from '../../operator/src/provisioner/index.ts';
import { persistentVolume } from '../../operator/src/provisioner/volume_reconciler.ts';
import { desired } from '../../operator/src/storage_cluster/objects/index.ts';
import { environment, sampleCluster } from '../../operator/src/storage_cluster/testing/samples.ts';

const provisioner = 'csi.hearth.storage';
const group = (name: string, pool: string, buffer: string) => ({
  name,
  nodeSelector: { 'example.com/pool': pool },
  cacheDirectories: [{ path: '/var/cache/hearth' }],
  engine: { buffer },
  resources: { requests: { cpu: '500m', memory: '1Gi' } },
});

function volumeOf(cluster: StorageCluster): object {
  const metadata = { name: 'model', namespace: 'team', uid: 'u-1' };
  const claim = pendingClaim({
    metadata: { ...metadata, annotations: { 'volume.kubernetes.io/storage-provisioner': provisioner } },
    spec: {
      storageClassName: 'hearth',
      accessModes: ['ReadOnlyMany'],
      resources: { requests: { storage: '1Gi' } },
      dataSourceRef: { apiGroup: 'hearth.storage', kind: 'Dataset', name: 'model' },
    },
  });
  const storageClass = classView({ metadata: { name: 'hearth' }, provisioner });
  const plan = planClaim(claim, storageClass, dataset({}, readyStatus({ cluster: 'models' })), [cluster]);
  if (plan.kind !== 'provision') throw new Error(`the claim gets no volume: ${JSON.stringify(plan)}`);
  return persistentVolume(plan.request);
}

const cluster = sampleCluster({ nodeGroups: [group('gpu', 'gpu', '4Gi'), group('rest', 'rest', '256Mi')] });
const store = 'etcd://10.96.0.7:2379/models';
const objects = desired({ cluster, environment, store, members: [], startHash: 'h' }).map(({ object }) => object);
const daemonSets = objects.filter(({ kind }) => kind === 'DaemonSet');
writeFileSync(1, JSON.stringify({ daemonSets, volume: volumeOf(cluster) }));
