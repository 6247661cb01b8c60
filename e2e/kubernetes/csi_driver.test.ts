import assert from 'node:assert/strict';
import { existsSync } from 'node:fs';
import { join } from 'node:path';
import { MiB, needsMounts, type Outcome, ok, root, until, writeSample } from '@hearth/common/testing';
import { KubernetesCluster } from '../cluster/kubernetes_cluster.ts';
import type { ClusterNode } from '../cluster/node.ts';
import { needsCluster } from '../cluster/testing/needs.ts';
import { pod } from '../cluster/testing/pod.ts';

const driver = 'csi.hearth.storage';
const state = '/var/lib/hearth/lab';
const socket = `${state}/run/agent.sock`;
const waiting = 'exec sleep 100000';

/** The driver, an agent and a holder as services of a node, without image or chart: what a real kubelet makes of them. */
describe('the CSI driver and a kubelet', () => {
  let cluster: KubernetesCluster;
  let node: ClusterNode;
  let digests: Map<string, string>;

  before(async function () {
    this.timeout(45 * 60_000); // The first run on a machine builds the programs.
    needsMounts(this);
    await needsCluster(this);
    cluster = await KubernetesCluster.start({ name: `csi-${process.pid}`, nodes: 1, owned: true });
    node = cluster.nodes[0] as ClusterNode;
    const origin = join(cluster.folder, 'origin');
    const cold = join(cluster.folder, 'cold');
    for (const folder of [origin, cold]) digests = writeSample(folder, { weights: 5 * MiB + 7, 'x/config.json': 1000 });
    await node.machine.must('mkdir', '-p', `${state}/run`);
    await node.machine.must('sh', '-c', 'umask 077; head -c 24 /dev/urandom | base64 > /var/lib/hearth/secret');
    await startService('holder', 'build/release/holder/hearth-holder', ['--socket', `${state}/run/holder.sock`]);
    await startAgent();
    await startDriver();
    await apply({
      apiVersion: 'storage.k8s.io/v1',
      kind: 'CSIDriver',
      metadata: { name: driver },
      spec: {
        attachRequired: false,
        podInfoOnMount: true,
        fsGroupPolicy: 'None',
        volumeLifecycleModes: ['Persistent', 'Ephemeral'],
      },
    });
    await hearth('dataset', 'add', 'default.model', origin);
    await hearth('warm', 'default.model');
    await hearth('dataset', 'add', 'default.cold', cold);
  });
  after(() => cluster?.stop());

  const apply = (...objects: object[]) =>
    ok(cluster.kubectl(['apply', '-f', '-'], { input: objects.map((one) => JSON.stringify(one)).join('\n---\n') }));
  const ready = (name: string, namespace = 'default') =>
    ok(
      cluster.kubectl(['-n', namespace, 'wait', '--for=condition=Ready', '--timeout=300s', `pod/${name}`], {
        timeoutMs: 330_000,
      }),
    );
  const remove = (name: string) =>
    ok(cluster.kubectl(['delete', 'pod', name, '--timeout=300s'], { timeoutMs: 330_000 }));
  const inPod = (name: string, command: string): Promise<Outcome> =>
    cluster.kubectl(['exec', name, '--', 'sh', '-c', command]);
  const hearth = (...args: string[]) =>
    node.machine.must(join(root, 'cli/bin/hearth'), '--socket', socket, '--json', ...args);
  const mounts = () => node.machine.must('cat', '/proc/self/mountinfo');

  async function startService(name: string, program: string, args: string[]): Promise<void> {
    const logPath = join(cluster.logFolder, `node1.${name}.log`);
    await node.machine.startService(name, join(root, program), args, { logPath });
  }

  async function startAgent(): Promise<void> {
    await startService('agent', 'cli/bin/hearth', [
      ...['agent', '--node', 'node1', '--cluster', 'lab', '--store', 'sqlite:/var/lib/hearth/store.sqlite'],
      ...['--secret-file', '/var/lib/hearth/secret', '--wire-listen', '127.0.0.1:7527'],
      ...['--cache-directories', '/var/lib/hearth/cache=1GiB:1GiB', '--control-socket', socket],
      ...['--health-listen', '127.0.0.1:7529', '--holder-socket', `${state}/run/holder.sock`],
      ...['--volumes-directory', state, '--log-format', 'json'],
    ]);
    await until('the agent is ready', async () => {
      const ask = ['wget', '-q', '-O', '-', 'http://127.0.0.1:7529/readyz'];
      return (await node.machine.run('busybox', ask)).code === 0;
    });
  }

  async function startDriver(): Promise<void> {
    await startService('csi-node', 'csi-driver/bin/hearth-csi-node', ['--node', 'node1', '--log-format', 'json']);
  }

  const registered = async (): Promise<boolean> => {
    const drivers = await ok(cluster.kubectl(['get', 'csinode', 'node1', '-o', 'jsonpath={.spec.drivers[*].name}']));
    return drivers.split(' ').includes(driver);
  };

  function reader(name: string, volume: object, more: { subPath?: string; securityContext?: object } = {}) {
    const volumeMounts = [{ name: 'models', mountPath: '/models', ...(more.subPath ? { subPath: more.subPath } : {}) }];
    const made = pod(name, 'node1', waiting, { container: { volumeMounts }, volumes: [{ name: 'models', ...volume }] });
    return {
      ...made,
      spec: { ...made.spec, ...(more.securityContext ? { securityContext: more.securityContext } : {}) },
    };
  }
  const inline = (dataset: string, readOnly = true) => ({ csi: { driver, readOnly, volumeAttributes: { dataset } } });
  const claim = (claimName: string) => ({ persistentVolumeClaim: { claimName } });

  /** Also of root in the container, whose mount the runtime makes writable when the pod does not ask for readOnly. */
  async function refusesWrites(name: string): Promise<void> {
    for (const write of ['touch /models/new', 'echo x > /models/weights', 'rm /models/weights', 'chmod 777 /models']) {
      const { code, stderr } = await inPod(name, write);
      assert.notEqual(code, 0, write);
      assert.match(stderr, /Read-only file system|Value too large|Permission denied/, write);
    }
  }

  async function verify(name: string): Promise<void> {
    for (const [path, digest] of digests) {
      assert.match(await ok(inPod(name, `sha256sum /models/${path}`)), new RegExp(`^${digest} `));
    }
    await refusesWrites(name);
  }

  it('registers itself', async () => {
    await until('the kubelet knows the driver', registered);
  });

  it('shows an inline volume to a pod, as a folder of it to another, whatever group they ask for', async () => {
    await apply(
      reader('inline', inline('model')),
      reader('part', inline('model'), { subPath: 'x' }),
      reader('group', inline('model'), { securityContext: { runAsUser: 1000, fsGroup: 2000 } }),
    );
    for (const name of ['inline', 'part', 'group']) await ready(name);
    await verify('inline');
    await verify('group');
    assert.match((await inPod('inline', 'touch /models/new')).stderr, /Read-only file system/);
    assert.equal((await ok(inPod('part', 'sha256sum /models/config.json'))).slice(0, 64), digests.get('x/config.json'));
    assert.match((await inPod('part', 'touch /models/new')).stderr, /Read-only file system/);
  });

  it('cannot be written although the pod does not ask for readOnly, complete or not', async () => {
    await apply(reader('careless', inline('model', false)), reader('cold', inline('cold', false)));
    for (const name of ['careless', 'cold']) {
      await ready(name);
      await refusesWrites(name);
      await verify(name);
    }
    for (const name of ['careless', 'cold']) await remove(name);
  });

  it('shows one PersistentVolume to several pods, with the mount options that it has', async () => {
    const capacity = { storage: '1Gi' };
    await apply(
      {
        apiVersion: 'v1',
        kind: 'PersistentVolume',
        metadata: { name: 'models' },
        spec: {
          capacity,
          accessModes: ['ReadOnlyMany', 'ReadWriteOnce'],
          storageClassName: '',
          mountOptions: ['noexec'],
          claimRef: { namespace: 'default', name: 'models' },
          csi: {
            driver,
            volumeHandle: 'any handle/with ü',
            volumeAttributes: { cluster: 'lab', datasetNamespace: 'default', dataset: 'model' },
          },
        },
      },
      {
        apiVersion: 'v1',
        kind: 'PersistentVolumeClaim',
        metadata: { name: 'models' },
        spec: { accessModes: ['ReadOnlyMany'], storageClassName: '', resources: { requests: capacity } },
      },
    );
    await apply(reader('one', claim('models')), reader('two', claim('models')));
    for (const name of ['one', 'two']) {
      await ready(name);
      await verify(name);
    }
    const restricted = (await mounts()).split('\n').filter((line) => / ro,nosuid,nodev,noexec[, ]/.test(line));
    assert.equal(restricted.filter((line) => line.includes('kubernetes.io~csi/models/mount ')).length, 2);
    await remove('one');
    await verify('two');
  });

  it('reports to a pod of another namespace that there is no such Dataset there, in an event', async () => {
    await ok(cluster.kubectl(['create', 'namespace', 'other']));
    await until('the default service account', async () => {
      return (await cluster.kubectl(['-n', 'other', 'get', 'serviceaccount', 'default'])).code === 0;
    });
    const stranger = reader('stranger', inline('model'));
    const thief = reader('thief', {
      csi: { driver, readOnly: true, volumeAttributes: { dataset: 'model', datasetNamespace: 'default' } },
    });
    for (const one of [stranger, thief]) {
      await apply({ ...one, metadata: { ...one.metadata, namespace: 'other' } });
    }
    const events = () => ok(cluster.kubectl(['-n', 'other', 'get', 'events', '-o', 'jsonpath={.items[*].message}']));
    await until('the event of the stranger', async () =>
      (await events()).includes('Dataset other/model of StorageCluster lab'),
    );
    await until('the event of the thief', async () =>
      (await events()).includes('remove the attribute datasetNamespace'),
    );
    await ok(cluster.kubectl(['delete', 'namespace', 'other', '--timeout=300s'], { timeoutMs: 330_000 }));
  });

  it('lets pods read and end while agent, driver and kubelet are killed, and goes on when they are back', async () => {
    await node.machine.stopService('agent', 'KILL');
    await node.machine.stopService('csi-node', 'KILL');
    await node.machine.stopService('kubelet', 'KILL');
    await node.startKubelet();
    await startDriver();
    await until('the kubelet answers', async () => (await inPod('inline', 'true')).code === 0);
    await verify('inline');
    await verify('two');
    await remove('inline');
    await apply(reader('later', inline('model')));
    const events = () => ok(cluster.kubectl(['get', 'events', '-o', 'jsonpath={.items[*].message}']));
    await until('an event that says what to do', async () =>
      (await events()).includes('the agent of StorageCluster lab does not run on node node1'),
    );
    await startAgent();
    await ready('later');
    await verify('later');
  });

  it('leaves nothing behind', async () => {
    for (const name of ['later', 'two', 'part', 'group']) await remove(name);
    await until('no pod has a mount', async () => !(await mounts()).includes('kubernetes.io~csi'));
    await until('nothing is remembered', async () => (await node.machine.must('ls', `${state}/published`)) === '');
    await node.machine.stopService('csi-node');
    await until('the kubelet forgets the driver', async () => !(await registered()));
    const registry = '/var/lib/kubelet/plugins_registry';
    assert.equal(
      await node.machine.must('ls', registry, `/var/lib/kubelet/plugins/${driver}`).catch(() => ''),
      `/var/lib/kubelet/plugins/${driver}:\n\n${registry}:\n`,
    );
    assert.ok(!existsSync(registry), 'and nothing of it was on this host');
  });
});
