import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { existsSync } from 'node:fs';
import { join } from 'node:path';
import { root, run, until } from '../src/command.ts';
import { KubernetesCluster } from './kubernetes_cluster.ts';
import { must } from './machine/machine.ts';
import { clusterNames, folderOf } from './state.ts';
import { needsCluster } from './testing/needs.ts';
import { ok } from './testing/ok.ts';
import { pod } from './testing/pod.ts';
import { traces } from './testing/traces.ts';

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

describe('what clusters leave behind', function () {
  this.timeout(300_000);
  let clean: Record<string, string[]>;

  before(async function () {
    this.timeout(45 * 60_000); // The first run on a machine builds the programs.
    await needsCluster(this);
    clean = await traces();
  });
  const isClean = () =>
    until('guards gone', async () => (await traces()).processes?.length === clean.processes?.length);

  it('is nothing when a cluster with pods and mounts is stopped', async () => {
    const name = `stopped-${process.pid}`;
    await using cluster = await KubernetesCluster.start({ name, nodes: 1, owned: true });
    const mounting = pod('mounting', 'node1', 'mount -t tmpfs none /shared && exec sleep 100000', {
      container: {
        securityContext: { privileged: true },
        volumeMounts: [{ name: 'shared', mountPath: '/shared', mountPropagation: 'Bidirectional' }],
      },
      volumes: [{ name: 'shared', hostPath: { path: '/var/lib/shared', type: 'DirectoryOrCreate' } }],
    });
    await ok(cluster.kubectl(['apply', '-f', '-'], { input: JSON.stringify(mounting) }));
    await ok(
      cluster.kubectl(['wait', '--for=condition=Ready', '--timeout=60s', 'pod/mounting'], { timeoutMs: 90_000 }),
    );
    const busy = await traces();
    for (const kind of ['processes', 'groups', 'devices', 'routes', 'folders']) {
      assert.ok((busy[kind]?.length ?? 0) > (clean[kind]?.length ?? 0), `the test sees no ${kind}`);
    }
    await cluster.stop();
    assert.deepEqual(await traces(), clean);
  });

  it('is nothing when the process that a cluster belongs to is killed', async () => {
    const name = `killed-${process.pid}`;
    const process_ = starter(name);
    await process_.up;
    await process_.kill();
    await until('the guard has removed it', () => !clusterNames().includes(name));
    await isClean();
    assert.deepEqual(await traces(), clean);
  });

  it('is removed by `cluster-down` when a start was killed half-way together with its guard', async () => {
    const name = `half-${process.pid}`;
    const process_ = starter(name);
    const log = join(folderOf(name), 'logs/node1.containerd.log');
    await until('containerd of the half-made cluster', () => existsSync(log), 120_000);
    for (const line of (await must('ps', '-e', '-o', 'pid=,args=')).split('\n')) {
      if (line.endsWith(`guard.ts ${name}`)) process.kill(Number(line.trim().split(' ')[0]), 'SIGKILL');
    }
    await process_.kill();
    assert.ok(clusterNames().includes(name));
    const outcome = await run(process.execPath, [join(root, 'e2e/cluster/main.ts'), 'down'], {
      environment: { NAME: 'none' },
    });
    assert.equal(outcome.code, 0, outcome.stderr);
    assert.match(outcome.stdout, new RegExp(name));
    assert.deepEqual(await traces(), clean);
  });
});
