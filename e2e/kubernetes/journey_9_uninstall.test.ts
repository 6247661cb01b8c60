import assert from 'node:assert/strict';
import { readFileSync, symlinkSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { bytesOf, MiB, ok, root, run, sha256, TemporaryFolder, until } from '@hearth/common/testing';
import { chartFolder, releaseNamespace } from '@hearth/common/testing/kubernetes';
import { parseAllDocuments } from 'yaml';
import { hearthImageName } from '../cluster/images/hearth_image.ts';
import { chartValues } from '../cluster/usage.ts';
import { clusterName, inline, installChart, ofClaim, useJourney } from './journey.ts';

/** The same image by another name: what an upgrade is to Kubernetes. */
const nextImage = 'local/hearth:next';

describe('upgrade and uninstallation', function () {
  this.timeout(1_200_000);
  const journey = useJourney('ends');
  const place = ['-n', releaseNamespace];

  async function uidsOf(component: string): Promise<string[]> {
    const select = ['-l', `app.kubernetes.io/component=${component}`];
    const uids = '{range .items[*]}{.metadata.uid}{"\\n"}{end}';
    const text = await ok(journey().cluster.kubectl([...place, 'get', 'pods', ...select, '-o', `jsonpath=${uids}`]));
    return text.trim().split('\n').sort();
  }

  /** Only the definitions and what users made are left in Kubernetes. */
  async function nothingIsLeft(): Promise<void> {
    const kinds =
      'pods,deployments,daemonsets,statefulsets,jobs,services,configmaps,secrets,serviceaccounts,roles,rolebindings,' +
      'clusterroles,clusterrolebindings,csidrivers,storageclasses,poddisruptionbudgets,leases,' +
      'mutatingwebhookconfigurations,validatingadmissionpolicies,validatingadmissionpolicybindings,persistentvolumes';
    const left = async () => {
      const lines = await ok(journey().cluster.kubectl(['get', kinds, '-A', '-o', 'name']));
      return lines.split('\n').filter((one) => one.includes('hearth'));
    };
    await until('nothing is left', async () => (await left()).length === 0).catch(async () => {
      assert.deepEqual(await left(), []);
    });
    const own = await ok(journey().cluster.kubectl(['get', 'crds', '-o', 'name']));
    assert.equal(own.match(/hearth\.storage/g)?.length, 4);
    for (const kind of ['storageclusters', 'nodecaches']) {
      assert.equal(await ok(journey().cluster.kubectl(['get', kind, '-o', 'name'])), '');
    }
    const dataset = await journey().get('dataset', 'whole');
    assert.ok(dataset, 'Datasets are of users');
    assert.deepEqual((dataset.metadata as { finalizers?: string[] }).finalizers ?? [], []);
    const labels = await ok(journey().cluster.kubectl(['get', 'nodes', '-o', 'jsonpath={.items[*].metadata.labels}']));
    assert.doesNotMatch(labels, /hearth\.storage/);
  }

  it('is upgraded, agents and all, under pods that read', async () => {
    const { nodes } = journey().cluster;
    const whole = bytesOf(91, 6 * MiB);
    const slow = bytesOf(92, 40 * MiB);
    const http = (name: string, bytes: Buffer) =>
      journey().dataset(name, { http: { urls: [journey().origin.add(name, bytes)] } });
    await journey().apply(http('whole', whole), http('slow', slow), journey().claim('whole'));
    for (const name of ['whole', 'slow']) await journey().ready(`dataset/${name}`);
    const watch = (name: string) => journey().watcher(name, ofClaim('whole'), 'whole', sha256(whole));
    await journey().apply(watch('fuse'));
    await journey().ready('pod/fuse');
    await until('all of it is there', async () => (await journey().get('dataset', 'whole'))?.status.nodes === 1);
    await journey().apply(watch('view'));
    await journey().ready('pod/view');
    // Several answers come side by side, and the pod that reads them all must still be seen to run.
    journey().origin.bytesPerSecond = MiB / 4;
    await journey().apply(journey().reader('slow', inline('slow'), { command: 'sha256sum /models/slow' }));
    await until(
      'a pod reads what is not there',
      async () => (await journey().get('pod', 'slow'))?.status.phase === 'Running',
    );

    const parts = ['operator', 'csi-node', 'agent', 'holder'];
    const before = Object.fromEntries(
      await Promise.all(parts.map(async (part) => [part, await uidsOf(part)] as const)),
    );
    const rounds = { fuse: await journey().rounds('fuse'), view: await journey().rounds('view') };
    for (const node of nodes) {
      const names = [hearthImageName, nextImage].map((name) => `docker.io/${name}`);
      assert.equal((await node.ctr(['images', 'tag', '--force', ...names])).code, 0);
    }
    const values = ['--set', `image=${nextImage}`, '--set', 'logLevel=debug'];
    const upgrade = ['upgrade', 'hearth', chartFolder, ...place, ...(await chartValues()), ...values];
    await ok(journey().cluster.helm([...upgrade, '--wait', '--timeout', '8m']));
    for (const part of ['operator', 'csi-node', 'agent']) {
      await until(`every ${part} is another`, async () => {
        // Sooner or later every page comes from the disk or the agent.
        writeFileSync('/proc/sys/vm/drop_caches', '1');
        const now = await uidsOf(part);
        return now.length === before[part]?.length && !now.some((uid) => before[part]?.includes(uid));
      });
    }
    const level = "jsonpath={.spec.template.spec.containers[0].env[?(@.name=='HEARTH_LOG_LEVEL')].value}";
    for (const object of ['deployment/hearth-operator', 'daemonset/hearth-csi-node']) {
      assert.equal(await ok(journey().cluster.kubectl([...place, 'get', object, '-o', level])), 'debug');
    }
    for (const object of [
      'daemonset/hearth-csi-node',
      'daemonset/hearth-main-all-agent',
      'deployment/hearth-operator',
    ]) {
      const status = [...place, 'rollout', 'status', object, '--timeout=300s'];
      await ok(journey().cluster.kubectl(status, { timeoutMs: 330_000 }));
    }
    assert.deepEqual(await uidsOf('holder'), before.holder, 'holders keep the mounts until their nodes are drained');
    journey().origin.bytesPerSecond = undefined;
    assert.equal((await journey().finished('slow')).slice(0, 64), sha256(slow));
    for (const [name, count] of Object.entries(rounds)) {
      await until(`${name} reads on`, async () => (await journey().rounds(name)) > count + 10);
    }
    await journey().apply(journey().reader('new', inline('whole'), { command: 'sha256sum /models/whole' }));
    assert.equal((await journey().finished('new')).slice(0, 64), sha256(whole));
    await journey().ready(`storagecluster/${clusterName}`);
  });

  it('is not uninstalled under pods that mount: it names them, and nothing is removed', async () => {
    const parts = ['operator', 'csi-node', 'agent', 'holder'];
    const uids = () => Promise.all(parts.map(uidsOf));
    const before = await uids();
    const refused = await journey().cluster.helm(['uninstall', 'hearth', ...place, '--timeout', '8m']);
    assert.notEqual(refused.code, 0);
    assert.match(refused.stdout + refused.stderr, /ends\/fuse on node1, ends\/view on node1; delete them/);
    assert.deepEqual(await uids(), before);
    await journey().ready(`storagecluster/${clusterName}`);
    const rounds = await journey().rounds('view');
    await until('pods read on', async () => (await journey().rounds('view')) > rounds + 3);
    await journey().remove('pod/fuse', 'pod/view');
  });

  it('is uninstalled: only the definitions and what users made are left', async () => {
    await journey().remove('pod/new', 'pod/slow', 'persistentvolumeclaim/whole');
    for (const { machine } of journey().cluster.nodes) {
      await until('no pod has a mount', async () => {
        return !(await machine.must('cat', '/proc/self/mountinfo')).includes('kubernetes.io~csi');
      });
    }
    await ok(journey().cluster.helm(['uninstall', 'hearth', ...place, '--timeout', '8m']));
    await nothingIsLeft();
    for (const { machine } of journey().cluster.nodes) {
      const mounts = (await machine.must('cat', '/proc/self/mountinfo')).split('\n');
      const ours = mounts.filter((line) => / \/var\/(lib|cache)\/hearth|kubernetes\.io~csi| - fuse[ .]/.test(line));
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

  it('is uninstalled by force under a pod, which reads on, and ends once the driver is there again', async () => {
    const { cluster } = journey();
    await installChart(cluster);
    await journey().apply(journey().storageCluster);
    await journey().ready(`storagecluster/${clusterName}`);
    await journey().ready('dataset/whole');
    const digest = sha256(bytesOf(91, 6 * MiB));
    await until('all of it is there', async () => (await journey().get('dataset', 'whole'))?.status.nodes === 1);
    await journey().apply(journey().watcher('last', inline('whole'), 'whole', digest));
    await journey().ready('pod/last');

    const force = ['--reuse-values', '--set', 'cleanup.force=true'];
    await ok(cluster.helm(['upgrade', 'hearth', chartFolder, ...place, ...force]));
    await ok(cluster.helm(['uninstall', 'hearth', ...place, '--timeout', '8m']));
    const rounds = await journey().rounds('last');
    await until('it reads on', async () => (await journey().rounds('last')) > rounds + 3);

    await journey().must('delete', 'pod', 'last', '--wait=false');
    await installChart(cluster);
    await until('the pod has ended', async () => (await journey().get('pod', 'last')) === undefined);
    // The kubelet lets a pod go whose unmount has failed, and tries that again within about two minutes.
    for (const { machine } of cluster.nodes) {
      await until(
        'nothing is mounted for it',
        async () => !(await machine.must('cat', '/proc/self/mountinfo')).includes('kubernetes.io~csi'),
      );
    }
    await ok(cluster.helm(['uninstall', 'hearth', ...place, '--timeout', '8m']));
  });

  it('leaves nothing where no hook of Helm runs, once the clean-up was run by hand', async () => {
    const { cluster } = journey();
    await installChart(cluster);
    await journey().apply(journey().storageCluster);
    await journey().ready('dataset/whole');
    // As Argo CD deletes an application, all at once. The definitions have the policy to be kept.
    const objects = parseAllDocuments(await ok(cluster.helm(['get', 'manifest', 'hearth', ...place])));
    const deleted = objects.filter((one) => one.get('kind') !== 'CustomResourceDefinition').map(String);
    await ok(cluster.kubectl(['delete', '--wait=false', '-f', '-'], { input: deleted.join('---\n') }));
    await ok(cluster.kubectl([...place, 'delete', 'secret', '-l', 'owner=helm']));
    await until('the operator has gone', async () => (await uidsOf('operator')).join('') === '');

    const text = readFileSync(join(root, 'docs/install.md'), 'utf8');
    const block = /^helm template hearth charts\/hearth [^`]*/m.exec(text)?.[0] ?? '';
    const set = (await chartValues()).join(' ');
    const folder = new TemporaryFolder('cleanup');
    symlinkSync(join(root, 'charts'), folder.file('charts'));
    const script = [
      `cd '${folder.path}'`,
      `export KUBECONFIG='${cluster.kubeconfig}' PATH='${cluster.programFolders.join(':')}':"$PATH"`,
      block.replace('--values VALUES.yaml', set),
    ];
    await ok(run('sh', ['-ec', script.join('\n')], { timeoutMs: 480_000 }));
    folder.remove();
    await nothingIsLeft();
  });
});
