import assert from 'node:assert/strict';
import { bytesOf, MiB, ok, sha256, until } from '@hearth/common/testing';
import { clusterName, inline, install, ofClaim, useJourney } from './journey.ts';

describe('Deletion of a StorageCluster while pods mount its volumes', () => {
  const journey = useJourney('deletion');
  const weights = bytesOf(41, 24 * MiB);

  after(async () => {
    await install(journey());
  });

  const onCluster = (...args: string[]) => ok(journey().cluster.kubectl(args));
  const isGone = async () => (await journey().get('storagecluster', clusterName)) === undefined;
  const waits = (pods: RegExp) =>
    until(`StorageCluster ${clusterName} names ${pods}`, async () => {
      const { conditions = [] } = (await journey().get('storagecluster', clusterName))?.status ?? {};
      const ready = conditions.find(({ type }: { type: string }) => type === 'Ready');
      return ready?.reason === 'InUse' && pods.test(ready.message) && (ready.message as string);
    });
  /** The pod reads all of the Dataset again, from where it is served. */
  const readsOn = async (pod: string) => {
    const before = await journey().rounds(pod);
    await until(`${pod} reads on`, async () => (await journey().rounds(pod)) > before);
  };

  it('waits for them in a condition and an event, and they read on', async () => {
    const watch = (name: string, volume: object) => journey().watcher(name, volume, 'weights', sha256(weights));
    await journey().apply(
      journey().dataset('model', { http: { urls: [journey().origin.add('weights', weights)] } }),
      journey().claim('model'),
      watch('inline', inline('model')),
      watch('claimed', ofClaim('model')),
    );
    for (const pod of ['inline', 'claimed']) await journey().ready(`pod/${pod}`);
    await onCluster('delete', 'storagecluster', clusterName, '--wait=false');
    const message = await waits(/deletion\/claimed on node1, deletion\/inline on node1;/);
    assert.match(message, /delete these pods/);
    const events = ['get', 'events', '-A', '--field-selector', `involvedObject.name=${clusterName},reason=InUse`];
    await until('its event', async () =>
      /Warning .*InUse .*deletion\/inline on node1/.test(await onCluster(...events)),
    );
    for (const pod of ['inline', 'claimed']) await readsOn(pod);
  });

  it('takes no new pod meanwhile', async () => {
    await journey().apply(journey().reader('new', ofClaim('model')));
    await journey().event('new', /FailedScheduling: .*node affinity/);
    await journey().remove('pod/new');
  });

  it('goes when the pods have gone', async () => {
    await journey().remove('pod/inline');
    await waits(/volumes: deletion\/claimed on node1;/);
    await readsOn('claimed');
    await journey().remove('pod/claimed');
    await until('the StorageCluster has gone', isGone);
  });

  it('goes while pods mount its volumes when it is annotated, and the pods can end', async () => {
    await install(journey());
    await journey().ready('dataset/model');
    await journey().apply(journey().reader('left', inline('model')));
    await journey().ready('pod/left');
    await onCluster('delete', 'storagecluster', clusterName, '--wait=false');
    const message = await waits(/deletion\/left on node1;/);
    const command = /kubectl (annotate storagecluster .*)$/.exec(message)?.[1]?.split(' ');
    assert.ok(command, message);
    await onCluster(...command);
    await until('the StorageCluster has gone', isGone);
    assert.equal((await journey().get('pod', 'left'))?.status.phase, 'Running');
    await journey().remove('pod/left', 'persistentvolumeclaim/model');
  });
});
