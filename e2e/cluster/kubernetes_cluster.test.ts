import assert from 'node:assert/strict';
import { existsSync, mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { must, ok, root, run, until } from '@hearth/common/testing';
import { KubernetesCluster } from './kubernetes_cluster.ts';
import { needsCluster } from './testing/needs.ts';
import { pod } from './testing/pod.ts';

describe('Kubernetes cluster for tests', () => {
  const name = `self-${process.pid}`;
  let others: string | undefined;
  let cluster: KubernetesCluster;

  const apply = (...objects: object[]) =>
    ok(
      cluster.kubectl(['apply', '-f', '-'], { input: objects.map((object) => JSON.stringify(object)).join('\n---\n') }),
    );
  const ready = (...pods: string[]) =>
    ok(
      cluster.kubectl(['wait', '--for=condition=Ready', '--timeout=300s', ...pods.map((pod) => `pod/${pod}`)], {
        timeoutMs: 330_000,
      }),
    );

  before(async function () {
    this.timeout(45 * 60_000); // The first run on a machine builds the programs.
    await needsCluster(this);
    // Digits behind a blank, and what programs take for a format.
    others = join(mkdtempSync(join(tmpdir(), 'hearth-')), 'a 1% 7');
    mkdirSync(others);
    await must('mount', '-t', 'tmpfs', 'of-others', others);
    cluster = await KubernetesCluster.start({ name, owned: true });
  });
  after(async () => {
    await cluster?.stop();
    if (others === undefined) return;
    await run('umount', [others]);
    rmSync(dirname(others), { recursive: true });
  });

  it('has two nodes of the version that go.mod names, each with an address of its own', async () => {
    const { items } = JSON.parse(await ok(cluster.kubectl(['get', 'nodes', '-o', 'json'])));
    assert.deepEqual(
      items.map((node: { metadata: { name: string } }) => node.metadata.name),
      ['node1', 'node2'],
    );
    assert.equal(items[0].status.nodeInfo.kubeletVersion, 'v1.36.3');
    assert.equal(items[1].status.addresses[0].address, cluster.nodes[1]?.addresses[0]);
  });

  it('runs pods on both nodes that reach each other, services, the API and this host', async () => {
    const server = 'mkdir /www; hostname > /www/index.html; exec httpd -f -p 8080 -h /www';
    await apply(pod('left', 'node1', server), pod('right', 'node2', server), {
      apiVersion: 'v1',
      kind: 'Service',
      metadata: { name: 'left' },
      spec: { selector: { name: 'left' }, ports: [{ port: 80, targetPort: 8080 }] },
    });
    await ready('left', 'right');
    const address = async (kind: string, path: string) =>
      ok(cluster.kubectl(['get', kind, '-o', `jsonpath={${path}}`]));
    const left = `http://${await address('pod/left', '.status.podIP')}:8080`;
    const right = `http://${await address('pod/right', '.status.podIP')}:8080`;
    const service = `http://${await address('service/left', '.spec.clusterIP')}`;
    // A pod is ready before its server listens.
    const answers = (what: string, pod: string, url: string, answer: string) =>
      until(what, async () => {
        const outcome = await cluster.kubectl(['exec', pod, '--', 'timeout', '5', 'wget', '-q', '-O', '-', url]);
        return outcome.stdout === `${answer}\n`;
      });
    await answers('the right pod from the left one', 'left', right, 'right');
    await answers('the left pod from the right one', 'right', left, 'left');
    await answers('service from a pod', 'right', service, 'left');
    assert.equal(await (await fetch(left)).text(), 'left\n');
    await until('service from this host', async () => {
      const response = await fetch(service).catch(() => undefined);
      return (await response?.text()) === 'left\n';
    });
    await ok(cluster.kubectl(['exec', 'left', '--', 'ping', '-c', '1', '-W', '5', cluster.network.hostAddress]));
    const api = `nc -w 5 ${cluster.network.apiServiceAddress} 443 </dev/null`;
    await ok(cluster.kubectl(['exec', 'left', '--', 'sh', '-c', api]));
  });

  it('has no mount that another test has made on this host for a while', async () => {
    const seen = (mounts: string) => mounts.includes(' - tmpfs of-others ');
    assert.ok(seen(readFileSync('/proc/self/mountinfo', 'utf8')));
    for (const { machine } of cluster.nodes) assert.ok(!seen(await machine.must('cat', '/proc/self/mountinfo')));
  });

  it('spreads a Bidirectional mount to other pods of the node and to nothing else', async () => {
    const volume = (mountPropagation: string) => ({
      container: {
        securityContext: { privileged: true },
        volumeMounts: [{ name: 'shared', mountPath: '/shared', mountPropagation }],
      },
      volumes: [{ name: 'shared', hostPath: { path: '/var/lib/shared', type: 'DirectoryOrCreate' } }],
    });
    const waiting = 'exec sleep 100000';
    await apply(
      pod('maker', 'node1', waiting, volume('Bidirectional')),
      pod('reader', 'node1', waiting, volume('HostToContainer')),
      pod('stranger', 'node2', waiting, volume('HostToContainer')),
    );
    await ready('maker', 'reader', 'stranger');
    const make = 'mkdir -p /shared/m && mount -t tmpfs none /shared/m && echo seen > /shared/m/file';
    await ok(cluster.kubectl(['exec', 'maker', '--', 'sh', '-c', make]));
    assert.equal(await ok(cluster.kubectl(['exec', 'reader', '--', 'cat', '/shared/m/file'])), 'seen\n');
    assert.notEqual((await cluster.kubectl(['exec', 'stranger', '--', 'cat', '/shared/m/file'])).code, 0);
    assert.equal(await cluster.nodes[0]?.machine.must('cat', '/var/lib/shared/m/file'), 'seen\n');
    assert.ok(!existsSync('/var/lib/shared'));
    assert.doesNotMatch(readFileSync('/proc/self/mountinfo', 'utf8'), /shared\/m/);
  });

  it('goes on after the API server, a kubelet and containerd were killed', async () => {
    await cluster.plane.stopProgram('kube-apiserver');
    assert.notEqual((await cluster.kubectl(['get', 'nodes'])).code, 0);
    await cluster.plane.startProgram('kube-apiserver');
    await cluster.plane.ready();
    const node = cluster.nodes[1];
    assert.ok(node);
    await node.machine.stopService('kubelet', 'KILL');
    await node.machine.stopService('containerd', 'KILL');
    await node.startContainerd();
    await node.startKubelet();
    await apply(pod('late', 'node2', 'exec sleep 100000'));
    await ready('late', 'left', 'right');
  });

  it('keeps its address on the wire while nodes come and go', async () => {
    const { machine } = cluster.plane;
    const address = () => machine.must('cat', '/sys/class/net/bridge/address');
    const ip = (command: string) => machine.must('ip', ...command.split(' '));
    const before = await address();
    // Lower than that of any other port.
    await ip('link add lowest address 02:00:00:00:00:01 type veth peer name other');
    try {
      await ip('link set lowest master bridge');
      assert.equal(await address(), before);
    } finally {
      await ip('link delete lowest');
    }
    assert.equal(await address(), before);
  });

  it('collects the logs of programs and pods', async () => {
    const folder = join(cluster.folder, 'collected');
    cluster.collectLogs(folder);
    const names = readdirSync(folder);
    for (const log of ['control.kube-apiserver.log', 'node1.kubelet.log', 'node2.containerd.log', 'node1.pods']) {
      assert.ok(names.includes(log), `${log} of ${names.join(' ')}`);
    }
  });

  it('is described by lines that work as they are pasted, the one that installs Hearth among them', async () => {
    const told = (
      await run(process.execPath, [join(root, 'e2e/cluster/main.ts'), 'up'], { environment: { NAME: name } })
    ).stdout;
    const lines = told.split('\n').flatMap((line) => /^ {2}(\S.*)/.exec(line)?.[1] ?? []);
    const helm = lines.find((line) => line.startsWith('helm '));
    assert.ok(helm, told);
    const dry = [lines[0], lines[1], `${helm.replace('--wait', '')} --dry-run=server`].join('\n');
    const manifests = await ok(run('sh', ['-ec', dry]));
    const onNode = (await cluster.nodes[0]?.ctr(['images', 'ls', '-q']))?.stdout.split('\n') ?? [];
    const named = new Set(
      [...manifests.matchAll(/^ *(?:- name: HEARTH_ETCD_IMAGE\n *value|image): "?([^"\s]+)/gm)].map(
        ([, image]) => image,
      ),
    );
    assert.ok(named.delete('local/hearth:dev'), manifests);
    assert.equal(named.size, 1);
    for (const image of named) assert.ok(onNode.includes(`docker.io/${image}`), `${image} of ${onNode}`);
  });

  it('runs helm', async () => {
    assert.match(await ok(cluster.helm(['version', '--short'])), /^v4\.3\.1/);
    assert.match(await ok(cluster.helm(['list'])), /^NAME/);
  });
});
