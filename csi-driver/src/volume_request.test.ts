import assert from 'node:assert/strict';
import { VolumeCapability_AccessMode_Mode as Mode, type VolumeCapability } from './generated/csi/csi.ts';
import { capability, inlineContext, manifest, volumeContext } from './testing/samples.ts';
import {
  accessChosenByPod,
  checkCapabilities,
  chosenBy,
  chosenByPod,
  groupOf,
  isInline,
  registeredName,
  requestsAccess,
  usageOf,
} from './volume_request.ts';

const invalid = { status: 'INVALID_ARGUMENT' };

describe('volume capabilities', () => {
  it('are accepted in every access mode', () => {
    for (const mode of Object.values(Mode).filter((one) => one > 0)) {
      assert.equal(usageOf(capability(mode)).singleTarget, mode === Mode.SINGLE_NODE_SINGLE_WRITER);
    }
  });

  it('are refused for block devices, file system types and unknown modes', () => {
    const block: VolumeCapability = { ...capability(), accessType: { $case: 'block', value: {} } };
    const typed: VolumeCapability = {
      ...capability(),
      accessType: { $case: 'mount', value: { fsType: 'ext4', mountFlags: [], volumeMountGroup: '' } },
    };
    assert.throws(() => usageOf(block), { ...invalid, message: /volumeMode: Filesystem/ });
    assert.throws(() => usageOf(typed), { ...invalid, message: /fsType/ });
    for (const bad of [
      undefined,
      { ...capability(), accessType: undefined },
      { ...capability(), accessMode: undefined },
    ]) {
      assert.throws(() => usageOf(bad), invalid);
    }
    assert.throws(() => usageOf(capability(Mode.UNKNOWN)), invalid);
    assert.throws(() => usageOf(capability(Mode.UNRECOGNIZED)), invalid);
    assert.throws(() => checkCapabilities([]), invalid);
    assert.throws(() => checkCapabilities([capability(), block]), invalid);
  });

  it('take harmless mount options, and do not repeat others, which may be secret', () => {
    assert.equal(usageOf(capability(Mode.MULTI_NODE_READER_ONLY, ['ro', 'noatime', 'noexec'])).noexec, true);
    assert.throws(
      () => usageOf(capability(Mode.MULTI_NODE_READER_ONLY, ['password=hunter2'])),
      (error: Error) => /mount options/.test(error.message) && !error.message.includes('hunter2'),
    );
  });

  it('take any group, which changes nothing', () => {
    const grouped = capability();
    if (grouped.accessType?.$case === 'mount') grouped.accessType.value.volumeMountGroup = '2000';
    assert.deepEqual(usageOf(grouped), { singleTarget: false, noexec: false });
    assert.equal(groupOf(grouped), 2000);
    assert.equal(groupOf(capability()), undefined);
    for (const bad of ['staff', '-1', '4294967295', '1 2']) {
      if (grouped.accessType?.$case === 'mount') grouped.accessType.value.volumeMountGroup = bad;
      assert.throws(() => groupOf(grouped), { ...invalid, message: /fsGroup/ }, bad);
    }
  });
});

describe('the choice of a dataset', () => {
  it('is by attributes for a PersistentVolume', () => {
    const chosen = chosenBy({
      ...volumeContext,
      revision: manifest('a'),
      'storage.kubernetes.io/csiProvisionerIdentity': 'x',
    });
    assert.deepEqual(chosen, { cluster: 'c', namespace: 'team', dataset: 'model', revision: manifest('a') });
    assert.equal(registeredName(chosen), 'team.model');
    assert.equal(chosenBy({ datasetNamespace: 'team', dataset: 'a.b' }).cluster, undefined);
  });

  it('takes the namespace of an inline volume from the kubelet alone', () => {
    const other = { ...inlineContext, 'csi.storage.k8s.io/ephemeral': 'false' };
    assert.equal(isInline('v', inlineContext), true);
    assert.equal(isInline('v', other), false);
    assert.equal(isInline(`csi-${'0a'.repeat(32)}`, {}), true, 'by the name that the kubelet gives');
    assert.deepEqual(chosenByPod(inlineContext), {
      cluster: undefined,
      namespace: 'team',
      dataset: 'model',
      revision: '',
    });
    for (const datasetNamespace of ['other', 'team', '']) {
      assert.throws(() => chosenByPod({ ...inlineContext, datasetNamespace }), {
        ...invalid,
        message: /the pod's own namespace; remove the attribute datasetNamespace/,
      });
    }
    const { 'csi.storage.k8s.io/pod.namespace': _, ...without } = inlineContext;
    assert.throws(() => chosenByPod(without), { status: 'FAILED_PRECONDITION', message: /podInfoOnMount: true/ });
  });

  it('refuses names that are no names, and reports which', () => {
    for (const dataset of [
      '',
      '..',
      '../other.secret',
      'a/b',
      'A',
      'a_b',
      '.a',
      'a..b',
      'a.',
      'x'.repeat(254),
      'a\nb',
    ]) {
      assert.throws(
        () => chosenByPod({ ...inlineContext, dataset }),
        { ...invalid, message: /attribute dataset/ },
        dataset,
      );
    }
    for (const cluster of ['../..', 'a/b', '..', 'Ä']) {
      assert.throws(() => chosenBy({ ...volumeContext, cluster }), { ...invalid, message: /attribute cluster/ });
    }
    for (const datasetNamespace of ['a.b', '', 'x'.repeat(64), '-a']) {
      assert.throws(() => chosenBy({ ...volumeContext, datasetNamespace }), {
        ...invalid,
        message: /datasetNamespace/,
      });
    }
    for (const revision of ['latest', manifest('A'), manifest('a').slice(1)]) {
      assert.throws(() => chosenBy({ ...volumeContext, revision }), { ...invalid, message: /attribute revision/ });
    }
  });

  it('refuses attributes that it does not know', () => {
    assert.throws(() => chosenBy({ ...volumeContext, datset: 'x', Revision: 'y' }), {
      ...invalid,
      message: 'unknown attributes: Revision, datset; there are cluster, datasetNamespace, dataset, revision',
    });
  });
});

describe('the choice of client access', () => {
  const { dataset: _, ...pod } = inlineContext;
  const context = { ...pod, clientAccess: 'true', datasets: 'model, words,model' };

  it('is of Datasets of the pod, to read unless more is named', () => {
    assert.equal(requestsAccess(context), true);
    assert.equal(requestsAccess(inlineContext), false);
    const chosen = { cluster: undefined, namespace: 'team', datasets: ['model', 'words'], rights: ['read'] };
    assert.deepEqual(accessChosenByPod(context), chosen);
    const more = { ...context, cluster: 'c', rights: 'read,advise,advise-cluster' };
    const rights = ['read', 'advise', 'advise-cluster'];
    assert.deepEqual(accessChosenByPod(more), { ...chosen, cluster: 'c', rights });
  });

  it('refuses all Datasets, those of other namespaces, rights that there are not, and what is misspelt', () => {
    for (const [bad, message] of [
      [{ datasets: '*' }, /attribute datasets/],
      [{ datasets: 'other/secret' }, /attribute datasets/],
      [{ datasets: 'model,' }, /attribute datasets/],
      [{ datasets: '' }, /attribute datasets is missing/],
      [{ datasetNamespace: 'other' }, /remove the attribute datasetNamespace/],
      [{ rights: 'write' }, /attribute rights/],
      [{ rights: '' }, /attribute rights/],
      [{ clientAccess: 'yes' }, /attribute clientAccess must be "true"/],
      [{ dataset: 'model' }, /unknown attributes: dataset; there are clientAccess, cluster, datasets, rights/],
      [{ cluster: '..' }, /attribute cluster/],
    ] as const) {
      assert.throws(() => accessChosenByPod({ ...context, ...bad }), { ...invalid, message });
    }
  });
});
