import assert from 'node:assert/strict';
import { MiB, ok, until } from '@hearth/common/testing';
import { inline, ofClaim, useJourney, verifying } from './journey.ts';

describe('volumes in pods', () => {
  const journey = useJourney('volumes');

  before(async () => {
    const path = journey().sample('volumes', { weights: 9 * MiB + 1, 'sub/config.json': 900 });
    await journey().apply(journey().dataset('model', { directory: { path } }), journey().claim('model'));
    await journey().ready('dataset/model');
  });

  /** Kind of file system that a pod sees at /models. */
  async function kindIn(name: string): Promise<string> {
    const line = await ok(journey().inPod(name, "grep ' /models ' /proc/mounts"));
    assert.match(line, / ro[, ]/, 'read-only');
    return line.split(' ')[2] ?? '';
  }

  async function refusesWrites(name: string): Promise<void> {
    for (const write of ['touch /models/new', 'echo x > /models/weights', 'rm /models/weights', 'chmod 777 /models']) {
      const { code, stderr } = await journey().inPod(name, write);
      assert.notEqual(code, 0, write);
      assert.match(stderr, /Read-only file system|Permission denied/, write);
    }
  }

  it('is a FUSE mount while bytes are missing', async () => {
    await journey().apply(journey().reader('cold', ofClaim('model')));
    await journey().ready('pod/cold');
    assert.match(await kindIn('cold'), /^fuse/);
    await ok(journey().inPod('cold', verifying));
    await refusesWrites('cold');
  });

  it("is the cache's own files once they are all there", async () => {
    await until('the node has all of it', async () => (await journey().get('dataset', 'model'))?.status.nodes === 1);
    await journey().apply(journey().reader('warm', ofClaim('model')));
    await journey().ready('pod/warm');
    assert.doesNotMatch(await kindIn('warm'), /^fuse/);
    await ok(journey().inPod('warm', verifying));
    await refusesWrites('warm');
  });

  it('is shared by pods, as a whole or a folder of it, by a claim or inline', async () => {
    await journey().apply(
      journey().reader('inline', inline('model')),
      journey().reader('part', ofClaim('model'), { subPath: 'sub', readOnly: true }),
    );
    for (const name of ['inline', 'part']) await journey().ready(`pod/${name}`);
    for (const name of ['inline', 'warm', 'cold']) await ok(journey().inPod(name, verifying));
    assert.equal((await ok(journey().inPod('part', 'ls /models'))).trim(), 'config.json');
    await refusesWrites('inline');
    await journey().remove('pod/warm', 'pod/cold');
    await ok(journey().inPod('inline', verifying));
  });

  it('keeps to a revision that is named', async () => {
    const manifest = (await journey().get('dataset', 'model'))?.status.manifest;
    await journey().apply(journey().reader('pinned', inline('model', { revision: manifest }), { command: verifying }));
    await journey().finished('pinned');
  });

  it("refuses another namespace's Dataset, with a sentence in an event", async () => {
    await journey().apply(journey().reader('thief', inline('model', { datasetNamespace: 'other' })));
    await journey().event('thief', /remove the attribute datasetNamespace/);
    await journey().remove('pod/thief');
  });

  it('goes when a claim is deleted: volume and mounts', async () => {
    const volume = (await journey().get('persistentvolumeclaim', 'model'))?.spec.volumeName;
    await journey().remove('pod/part', 'pod/inline', 'pod/pinned', 'persistentvolumeclaim/model');
    await until('the volume has gone', async () => (await journey().get('persistentvolume', volume)) === undefined);
    for (const { machine } of journey().cluster.nodes) {
      await until('no pod has a mount', async () => {
        return !(await machine.must('cat', '/proc/self/mountinfo')).includes('kubernetes.io~csi');
      });
    }
  });

  it('stays readable when its Dataset is deleted, says so, and goes with the last pod', async () => {
    await journey().apply(journey().reader('last', inline('model')));
    await journey().ready('pod/last');
    await journey().must('delete', 'dataset', 'model', '--wait=false');
    const message = await journey().reason('dataset', 'model', 'InUse');
    assert.match(message, /last/);
    await ok(journey().inPod('last', verifying));
    await journey().remove('pod/last');
    // Mounts that are not used go after a minute.
    await until('the Dataset has gone', async () => (await journey().get('dataset', 'model')) === undefined);
  });
});
