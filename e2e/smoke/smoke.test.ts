import assert from 'node:assert/strict';
import { bytesOf, MiB, ok, sha256, until } from '@hearth/common/testing';
import { releaseNamespace } from '@hearth/common/testing/kubernetes';
import { clusterName, ofClaim, useJourney } from '../kubernetes/journey.ts';

/** The shortest way through the product on Kubernetes; run it before calling a change of chart, operator or driver done. */
describe('Hearth on one node', () => {
  const journey = useJourney('smoke');
  const weights = bytesOf(1, 9 * MiB + 3);

  it('has a ready StorageCluster', async () => {
    await journey().ready(`storagecluster/${clusterName}`);
    const nodes = await journey().get('nodecache', 'node1');
    assert.equal(nodes?.metadata.name, 'node1');
  });

  it('gives a pod the bytes of a Dataset through a claim', async () => {
    const command = 'sha256sum /models/weights.bin';
    await journey().apply(
      journey().dataset('model', { http: { urls: [journey().origin.add('weights.bin', weights)] } }),
      journey().claim('model'),
      journey().reader('reader', ofClaim('model'), { command }),
    );
    await journey().ready('dataset/model');
    assert.equal((await journey().finished('reader')).split(' ')[0], sha256(weights));
  });

  it('gives two pods a scratch volume, of which one reads what the other has written', async () => {
    const volume = { persistentVolumeClaim: { claimName: 'kv' } };
    const write = 'head -c 5000003 /dev/urandom > /models/block && sha256sum < /models/block';
    await journey().apply(journey().scratchClaim('kv', '64Mi'), journey().reader('writer', volume, { command: write }));
    const written = await journey().finished('writer');
    await journey().apply(journey().reader('other', volume, { command: 'sha256sum < /models/block' }));
    assert.equal(await journey().finished('other'), written);
    const name = (await journey().get('persistentvolumeclaim', 'kv'))?.spec.volumeName;
    await journey().remove('pod/writer', 'pod/other', 'persistentvolumeclaim/kv');
    await until('the volume is gone', async () => (await journey().get('persistentvolume', name)) === undefined);
  });

  it('is uninstalled and leaves no object but what users made', async () => {
    await journey().remove('pod/reader', 'persistentvolumeclaim/model');
    await ok(journey().cluster.helm(['uninstall', 'hearth', '-n', releaseNamespace, '--timeout', '8m']));
    const left = async () => {
      const kinds = 'deployments,daemonsets,statefulsets,clusterroles,clusterrolebindings,csidrivers,persistentvolumes';
      const lines = await ok(journey().cluster.kubectl(['get', kinds, '-A', '-o', 'name']));
      return lines.split('\n').filter((line) => line.includes('hearth'));
    };
    await until('no object is left', async () => (await left()).length === 0);
    assert.ok(await journey().get('dataset', 'model'), 'Datasets belong to users');
  });
});
