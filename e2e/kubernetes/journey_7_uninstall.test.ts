import assert from 'node:assert/strict';
import { ok } from '../cluster/testing/ok.ts';
import { until } from '../src/command.ts';
import { chartFolder, releaseNamespace } from './chart.ts';
import { chartValues, clusterName, inline, ofClaim, useJourney, verifying } from './journey.ts';

describe('upgrade and uninstallation', function () {
  this.timeout(400_000);
  const journey = useJourney('ends');
  const place = ['-n', releaseNamespace];

  it('is upgraded under a pod that reads', async () => {
    await journey().apply(
      journey().dataset('model', { selfTest: {} }),
      journey().claim('model'),
      journey().reader('reader', ofClaim('model')),
    );
    await journey().ready('pod/reader', 90);
    const upgrade = ['upgrade', 'hearth', chartFolder, ...place, ...chartValues, '--set', 'logLevel=debug'];
    await ok(journey().cluster.helm([...upgrade, '--wait', '--timeout', '3m']));
    const level = "jsonpath={.spec.template.spec.containers[0].env[?(@.name=='HEARTH_LOG_LEVEL')].value}";
    for (const object of ['deployment/hearth-operator', 'daemonset/hearth-csi-node']) {
      assert.equal(await ok(journey().cluster.kubectl([...place, 'get', object, '-o', level])), 'debug');
      const status = [...place, 'rollout', 'status', object, '--timeout=90s'];
      await ok(journey().cluster.kubectl(status, { timeoutMs: 100_000 }));
    }
    await ok(journey().inPod('reader', verifying));
    await journey().apply(journey().reader('new', inline('model'), { command: verifying }));
    await journey().finished('new');
    await journey().ready(`storagecluster/${clusterName}`);
  });

  it('is uninstalled: only the definitions and what users made are left', async () => {
    await journey().remove('pod/reader', 'pod/new', 'persistentvolumeclaim/model');
    for (const { machine } of journey().cluster.nodes) {
      await until('no pod has a mount', async () => {
        return !(await machine.must('cat', '/proc/self/mountinfo')).includes('kubernetes.io~csi');
      });
    }
    await ok(journey().cluster.helm(['uninstall', 'hearth', ...place, '--timeout', '5m']));
    const kinds =
      'pods,deployments,daemonsets,statefulsets,jobs,services,configmaps,secrets,serviceaccounts,roles,rolebindings,' +
      'clusterroles,clusterrolebindings,csidrivers,storageclasses,poddisruptionbudgets,leases,' +
      'validatingadmissionpolicies,validatingadmissionpolicybindings,persistentvolumes';
    const left = async () => {
      const lines = await ok(journey().cluster.kubectl(['get', kinds, '-A', '-o', 'name']));
      return lines.split('\n').filter((one) => one.includes('hearth'));
    };
    await until('nothing is left', async () => (await left()).length === 0, 90_000).catch(async () => {
      assert.deepEqual(await left(), []);
    });
    const own = await ok(journey().cluster.kubectl(['get', 'crds', '-o', 'name']));
    assert.equal(own.match(/hearth\.storage/g)?.length, 4);
    for (const kind of ['storageclusters', 'nodecaches']) {
      assert.equal(await ok(journey().cluster.kubectl(['get', kind, '-o', 'name'])), '');
    }
    const dataset = await journey().get('dataset', 'model');
    assert.ok(dataset, 'Datasets are of users');
    assert.deepEqual((dataset.metadata as { finalizers?: string[] }).finalizers ?? [], []);
    for (const { machine } of journey().cluster.nodes) {
      const mounts = (await machine.must('cat', '/proc/self/mountinfo')).split('\n');
      const ours = mounts.filter((line) => / \/var\/(lib|cache)\/hearth|kubernetes\.io~csi| - fuse/.test(line));
      assert.deepEqual(ours, []);
      assert.equal(await machine.must('ls', '/var/lib/kubelet/plugins_registry'), '');
      assert.equal(await machine.must('find', '/var/lib/hearth', '-name', '*.sock'), '', 'no socket');
      assert.equal(
        await machine.must('find', '/var/lib/hearth/main/mounts', '-mindepth', '1'),
        '',
        'no folder of a mount',
      );
    }
  });
});
