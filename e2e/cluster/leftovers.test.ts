import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { existsSync, mkdirSync } from 'node:fs';
import { join } from 'node:path';
import { must, ok, root, run, until } from '@hearth/common/testing';
import { KubernetesCluster } from './kubernetes_cluster.ts';
import { type ClusterRecord, clusterNames, folderOf, readRecord } from './state.ts';
import { needsCluster } from './testing/needs.ts';
import { pod } from './testing/pod.ts';
import { hostTraces, traces } from './testing/traces.ts';

/** A process that starts a cluster of its own and then does nothing. */
function starter(name: string) {
  const script = `
    const { KubernetesCluster } = await import('${join(root, 'e2e/cluster/kubernetes_cluster.ts')}');
    await KubernetesCluster.start({ name: '${name}', nodes: 1, owned: true });
    console.log('up');
    setInterval(() => {}, 1000);`;
  const child = spawn(process.execPath, ['--input-type=module', '-e', script], {
    stdio: ['ignore', 'pipe', 'inherit'],
  });
  const ended = new Promise((resolve) => child.once('close', resolve));
  return {
    up: new Promise((resolve) => child.stdout.once('data', resolve)),
    async kill() {
      child.kill('SIGKILL');
      await ended;
    },
  };
}

describe('what clusters leave behind', () => {
  let host: Record<string, string[]>;

  before(async function () {
    this.timeout(45 * 60_000); // The first run on a machine builds the programs.
    await needsCluster(this);
    host = await hostTraces();
  });
  const record = (name: string): ClusterRecord => {
    const found = readRecord(name);
    assert.ok(found, `no cluster ${name}`);
    return found;
  };
  /** The guard is gone a moment after the cluster that it removed. */
  async function assertNothing(of: ClusterRecord): Promise<void> {
    await until('the guard gone', async () => (await traces(of)).processes?.length === 0);
    const nothing = { processes: [], mounts: [], disks: [], groups: [], devices: [], routes: [], folders: [] };
    assert.deepEqual(await traces(of), nothing);
    assert.deepEqual(await hostTraces(), host);
  }

  it('is nothing when a cluster with pods and mounts is stopped', async () => {
    const name = `stopped-${process.pid}`;
    // A start removes what others have left, here one that was killed before it had written anything down.
    const orphan = `empty-${process.pid}`;
    mkdirSync(folderOf(orphan), { recursive: true });
    await using cluster = await KubernetesCluster.start({ name, nodes: 1, owned: true });
    assert.ok(!clusterNames().includes(orphan));
    const mounting = pod('mounting', 'node1', 'mount -t tmpfs none /shared && exec sleep 100000', {
      container: {
        securityContext: { privileged: true },
        volumeMounts: [{ name: 'shared', mountPath: '/shared', mountPropagation: 'Bidirectional' }],
      },
      volumes: [{ name: 'shared', hostPath: { path: '/var/lib/shared', type: 'DirectoryOrCreate' } }],
    });
    await ok(cluster.kubectl(['apply', '-f', '-'], { input: JSON.stringify(mounting) }));
    await ok(
      cluster.kubectl(['wait', '--for=condition=Ready', '--timeout=300s', 'pod/mounting'], { timeoutMs: 330_000 }),
    );
    const reserved = record(name);
    for (const [kind, found] of Object.entries(await traces(reserved))) {
      if (kind !== 'mounts') assert.notEqual(found.length, 0, `the test does not see ${kind}`);
    }
    await cluster.stop();
    await assertNothing(reserved);
  });

  it('is nothing when the process that a cluster belongs to is killed', async () => {
    const name = `killed-${process.pid}`;
    const owner = starter(name);
    await owner.up;
    const reserved = record(name);
    await owner.kill();
    await until('the guard has removed it', () => !clusterNames().includes(name));
    await assertNothing(reserved);
  });

  it('is removed by `cluster-down` when a start was killed half-way together with its guard', async () => {
    const name = `half-${process.pid}`;
    const owner = starter(name);
    const log = join(folderOf(name), 'logs/node1.containerd.log');
    await until('containerd of the half-made cluster', () => existsSync(log));
    const reserved = record(name);
    for (const line of (await must('ps', '-e', '-o', 'pid=,args=')).split('\n')) {
      if (line.endsWith(`guard.ts ${name}`)) process.kill(Number(line.trim().split(' ')[0]), 'SIGKILL');
    }
    await owner.kill();
    const outcome = await run(process.execPath, [join(root, 'e2e/cluster/main.ts'), 'down'], {
      environment: { NAME: 'none' },
    });
    assert.equal(outcome.code, 0, outcome.stderr);
    assert.match(outcome.stdout, new RegExp(name));
    await assertNothing(reserved);
  });
});
