import assert from 'node:assert/strict';
import { isIP } from 'node:net';
import { bytesOf, MiB, ok, sha256, until } from '@hearth/common/testing';
import { type Manifest, releaseNamespace } from '@hearth/common/testing/kubernetes';
import { FileOrigin } from '@hearth/common/testing/origins';
import type { Family } from '../cluster/network.ts';
import { useOwnCluster } from './cluster_fixture.ts';
import { clusterName, inline, install, Journey } from './journey.ts';

/** The addresses of nodes, pods and services; the first family is that of services. */
const clusters: { what: string; name: string; families: readonly Family[] }[] = [
  { what: 'without IPv4', name: 'ipv6', families: ['IPv6'] },
  { what: 'with both families of addresses', name: 'dual', families: ['IPv4', 'IPv6'] },
];
for (const { what, name, families } of clusters) {
  describe(`a cluster ${what}`, function () {
    this.timeout(1_200_000);
    clusterOf(name, families);
  });
}

function clusterOf(name: string, families: readonly Family[]): void {
  const size = 24 * MiB;
  const bytes = bytesOf(1010, size);
  const command = `[ "$(sha256sum < /models/weights)" = "${sha256(bytes)}  -" ]`;
  const cluster = useOwnCluster(name, { families });
  let origin: FileOrigin;
  let journey: Journey;

  before(async () => {
    origin = await FileOrigin.start(cluster().network.hostAddress);
    journey = new Journey(cluster(), 'default', origin);
  });
  after(() => origin?.[Symbol.asyncDispose]());

  const podsOf = async (component: string): Promise<Manifest[]> => {
    const select = ['-l', `app.kubernetes.io/component=${component}`, '-o', 'json'];
    return JSON.parse(await ok(cluster().kubectl(['-n', releaseNamespace, 'get', 'pods', ...select]))).items;
  };

  it('has a StorageCluster that is ready on all nodes, with three members of etcd that reach one another', async () => {
    const { storageCluster } = journey;
    storageCluster.spec.store = { etcd: { replicas: 3 } };
    await install(journey, storageCluster);
    const members = await podsOf('etcd');
    assert.equal(members.length, 3);
    for (const { status, metadata } of [...members, ...(await podsOf('agent'))]) {
      for (const addresses of [status?.podIPs, status?.hostIPs]) {
        const found = addresses.map(({ ip }: { ip: string }) => `IPv${isIP(ip)}`);
        assert.deepEqual(found, families, metadata.name);
      }
    }
  });

  it('answers the commands of its agents, which know one another', async () => {
    const agent = ['exec', '-n', releaseNamespace, `ds/hearth-${clusterName}-all-agent`, '--', 'hearth'];
    await until('both nodes are in the status', async () => {
      const { stdout } = await cluster().kubectl([...agent, 'status']);
      return /^node1 +ready /m.test(stdout) && /^node2 +ready /m.test(stdout);
    });
  });

  it('reads from the origin on one node, and from that node on the other', async () => {
    const urls = [origin.add('weights', bytes)];
    await journey.apply(journey.dataset('model', { http: { urls } }));
    await journey.ready('dataset/model');
    await journey.apply(journey.reader('first', inline('model'), { command }));
    await journey.finished('first');
    await until('all of it is there', async () => (await journey.get('dataset', 'model'))?.status.nodes === 1);
    const sent = origin.sentBytes;
    assert.ok(sent >= size);
    await journey.apply(journey.reader('second', inline('model'), { command, node: 'node2' }));
    await journey.finished('second');
    assert.ok(origin.sentBytes - sent < size / 2, `the origin sent ${origin.sentBytes - sent} B more`);
  });

  it('trusts a new authority beside the former one, whose key was lost, and replaces the members of etcd', async () => {
    const former = new Set((await podsOf('etcd')).map(({ metadata }) => (metadata as { uid?: string }).uid));
    const secret = (role: string) => ['-n', releaseNamespace, 'secret', `hearth-${clusterName}-${role}`];
    await ok(cluster().kubectl(['patch', ...secret('ca'), '--patch', '{"data":{"ca.key":""}}']));
    await until('three other members that are ready', async () => {
      const members = await podsOf('etcd');
      const isOther = ({ metadata, status }: Manifest) =>
        !former.has((metadata as { uid?: string }).uid) &&
        status?.conditions.some(
          (one: { type: string; status: string }) => one.type === 'Ready' && one.status === 'True',
        );
      return members.length === 3 && members.every(isOther);
    });
    const bundle = await ok(cluster().kubectl(['get', ...secret('agent'), '-o', 'jsonpath={.data.ca\\.crt}']));
    assert.equal(
      Buffer.from(bundle, 'base64')
        .toString()
        .match(/BEGIN CERTIFICATE/g)?.length,
      2,
    );
    await journey.ready(`storagecluster/${clusterName}`);
  });

  it('asks the webhook about pods, and opens their gates', async () => {
    const urls = [origin.add('gated/weights', bytes)];
    await journey.apply(journey.dataset('gated', { http: { urls } }, { gate: { mode: 'Wait', timeout: '5m' } }));
    await journey.ready('dataset/gated');
    await journey.apply(journey.reader('gated', inline('gated'), { command }));
    assert.ok((await journey.get('pod', 'gated'))?.metadata.annotations?.['hearth.storage/preload'], 'it was gated');
    await journey.finished('gated');
  });
}
