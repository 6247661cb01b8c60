import assert from 'node:assert/strict';
import { healthPort } from '@hearth/common';
import { run, TemporaryFolder } from '@hearth/common/testing';
import { jsonLines, type RunOptions, runCommand } from '../testing/fake_terminal.ts';
import { sumsOf } from './agent_metrics.ts';
import { kubectlProgram } from './program.ts';
import { FakeApiServer } from './testing/fake_api_server.ts';
import { sampleCluster } from './testing/sample_cluster.ts';

describe('kubectl hearth', () => {
  let server: FakeApiServer;
  let folder: TemporaryFolder;
  beforeEach(async () => {
    folder = new TemporaryFolder('kubectl-hearth');
    server = await FakeApiServer.start(sampleCluster());
    server.texts['/version'] = () => '{"major":"1","minor":"36","gitVersion":"v1.36.3"}';
  });
  afterEach(async () => {
    await server[Symbol.asyncDispose]();
    await folder.remove();
  });

  const hearth = (words: string[], { environment, ...options }: RunOptions = {}) =>
    runCommand(words, {
      program: 'kubectl hearth',
      directory: folder.path,
      environment: { KUBECONFIG: server.kubeconfig, ...environment },
      build: kubectlProgram,
      ...options,
    });

  it('has help with examples for every command', async () => {
    const { out } = await hearth([]);
    const names = [...out.matchAll(/^ {2}([a-z][a-z-]*)[ |]/gm)]
      .map(([, name = '']) => name)
      .filter((name) => name !== 'help');
    assert.ok(names.length > 15, out);
    for (const name of names) {
      const { code, out: help } = await hearth(['help', name]);
      assert.equal(code, 0, name);
      assert.match(help, /\nExamples:\n {2}kubectl hearth /, name);
    }
  });

  describe('explain', () => {
    it('explains why the pod of a Deployment waits, with six requests', async () => {
      const { code, out, err } = await hearth(['explain', 'deployment/web']);
      assert.equal(code, 0, err);
      assert.match(out, /^Pod team\/web-0: held back until its bytes are there/);
      assert.match(out, /Waits for 4\.0 GiB on node1/);
      assert.match(out, /team\/llama +model +ready +8\.0 GiB +Wait/);
      const paths = server.requests.map((one) => one.replace(/^GET \/apis?\/|\?.*$/g, ''));
      assert.deepEqual(paths.slice(0, 2), ['apps/v1/namespaces/team/deployments/web', 'v1/namespaces/team/pods']);
      // The list already contains the pod. These three requests run in parallel; the Dataset follows its claim.
      assert.deepEqual(paths.slice(2, 5).sort(), [
        'hearth.storage/v1alpha1/namespaces/team/cachepreloads/web-1',
        'v1/namespaces/team/events',
        'v1/namespaces/team/persistentvolumeclaims/models',
      ]);
      assert.deepEqual(paths.slice(5), ['hearth.storage/v1alpha1/namespaces/team/datasets/llama']);
    });

    it('takes the namespace of -n, before or after the command', async () => {
      for (const words of [
        ['-n', 'other', 'explain', 'pod/x'],
        ['explain', '-n', 'other', 'pod/x'],
      ]) {
        const { err } = await hearth(words);
        assert.match(err, /there is no pod other\/x/, words.join(' '));
      }
    });
  });

  describe('status', () => {
    it('shows clusters, nodes, Datasets, preloads and waiting pods, with five lists', async () => {
      const { code, out, err } = await hearth(['status']);
      assert.equal(code, 0, err);
      assert.match(out, /^StorageCluster main: 2 of 2 nodes ready, 480\.0 GiB of 800\.0 GiB used\n/);
      assert.match(out, /^node1 +ready +\[########--\] +81% +324\.0 GiB +400\.0 GiB +1 /m);
      assert.match(out, /^team\/llama +ready +8\.0 GiB +12 +0 nodes +50%$/m);
      assert.match(out, /^team\/web-1 +Warming .* 50% +8\.0 GiB +100\.0 MiB\/s +about 41 s +0\/1 +4\.0 GiB on node1$/m);
      assert.match(out, /^team\/web-0 .* 50% +about 41 s +4\.0 GiB on node1$/m);
      assert.equal(server.requests.length, 5);
    });

    it('names objects that the user may not read, and shows the rest', async () => {
      server.forbidden.add('nodecaches').add('storageclusters');
      const { code, out } = await hearth(['status', '-n', 'team']);
      assert.equal(code, 0);
      assert.match(out, /^team\/llama /m);
      assert.match(out, /^Note: you may not read nodecaches/m);
      assert.ok(
        server.requests.some((one) => one.startsWith('GET /apis/hearth.storage/v1alpha1/namespaces/team/datasets')),
      );
    });

    it('prints JSON', async () => {
      const { nodes } = jsonLines((await hearth(['status', '--json'])).out)[0] as {
        nodes: { node: string; percent: number }[];
      };
      assert.deepEqual(
        nodes.map(({ node, percent }) => [node, percent]),
        [
          ['node1', 81],
          ['node2', 39],
        ],
      );
    });
  });

  describe('top', () => {
    const path = (pod: string) => `/api/v1/namespaces/hearth-system/pods/${pod}:${healthPort}/proxy/metrics`;

    it('sums metrics over their labels', () => {
      const text = '# HELP a b\na{directory="/x y"} 3\na{directory="/z"} 4e2\nb 1 1700000000\n';
      assert.deepEqual(
        [...sumsOf(text)],
        [
          ['a', 403],
          ['b', 1],
        ],
      );
    });

    it("shows rates of every agent through the API server's proxy, and reasons for unknown ones", async () => {
      let bytes = 0;
      server.texts[path('agent-b')] = () => {
        bytes += 10_000_000;
        return `hearth_cache_used_bytes{directory="/a"} 1024\nhearth_cache_budget_bytes{directory="/a"} 4096\nhearth_origin_bytes_total ${bytes}\n`;
      };
      const { code, out, err } = await hearth(['top', '--interval', '0.2', '--json']);
      assert.equal(code, 0, err);
      const [first, second] = JSON.parse(out) as Record<string, number | string | null>[];
      assert.deepEqual([first?.node, first?.originRate], ['node1', null]);
      assert.match(String(first?.trouble), /metrics of the agent on node1/);
      assert.deepEqual([second?.node, second?.usedBytes, second?.peerInRate], ['node2', 1024, null]);
      assert.ok(Number(second?.originRate) > 0);
      const shown = await hearth(['top', '--interval', '0.2']);
      assert.match(shown.out, /^node2 +\[##--------\] +1\.0 KiB +- +\S+ MiB\/s /m);
    });
  });

  describe('warm', () => {
    beforeEach(() => {
      const status = { phase: 'Ready', percent: 100, bytesReady: 8, bytesTotal: 8 };
      server.admit = (object) => ({ ...object, status });
    });
    const made = () =>
      Object.entries(server.objects).find(([path]) => path.includes('/cachepreloads/warm-llama-'))?.[1];

    it('creates a CachePreload, follows it, and deletes it when complete', async () => {
      const { code, out, err } = await hearth(['warm', 'llama', '--node', 'node1,node2']);
      assert.equal(code, 0, err);
      assert.match(out, /^warm-llama-\w{5} Ready 100%: 8 B of 8 B$/m);
      const verbs = server.requests.map((one) => one.split(' ')[0]);
      assert.deepEqual(verbs, ['GET', 'POST', 'GET', 'DELETE']);
      assert.equal(made(), undefined);
    });

    it('keeps a pinning CachePreload, and one that is not followed', async () => {
      assert.equal((await hearth(['warm', 'team/llama', '--pin', '--replicas', '2'])).code, 0);
      const { spec } = made() as unknown as { spec: object };
      assert.deepEqual(spec, { datasets: [{ name: 'llama' }], placement: { replicas: 2 }, pin: true });
      const { out } = await hearth(['warm', 'llama', '--detach']);
      assert.match(out, /continues; kubectl delete cachepreload -n team warm-llama-/);
    });

    it('reports why a preload failed, and refuses a missing Dataset', async () => {
      server.admit = (object) => ({ ...object, status: { phase: 'Failed', waitingFor: 'room on node1' } });
      const failed = await hearth(['warm', 'llama']);
      assert.equal(failed.code, 6);
      assert.match(failed.err, /the preload failed: room on node1; see kubectl describe cachepreload -n team/);
      const missing = await hearth(['warm', 'other']);
      assert.equal(missing.code, 3);
      assert.match(missing.err, /there is no Dataset team\/other/);
    });
  });

  describe('in the pod of an agent', () => {
    const asked: [string, string[]][] = [];
    beforeEach(() => {
      asked.length = 0;
      server.execute = (pod, words) => {
        asked.push([pod, words]);
        return { stdout: 'said\n', stderr: 'noted\n', exit: 3 };
      };
    });

    it('runs commands with unchanged arguments at a ready agent, and exits with their code', async () => {
      const outcome = await hearth(['evict', 'team.llama', '*.bin', 'a b', '--node', 'node2']);
      assert.deepEqual(outcome, { code: 3, out: 'said\n', err: 'noted\n' });
      await hearth(['exec', 'status', '--watch']);
      assert.deepEqual(asked, [
        ['agent-b', ['hearth', 'evict', 'team.llama', '*.bin', 'a b', '--node', 'node2']],
        ['agent-b', ['hearth', 'status', '--watch']],
      ]);
    });

    it('selects the agent by node, StorageCluster and release', async () => {
      const environment = { HEARTH_NODE: 'node7', HEARTH_CLUSTER: 'main', HEARTH_NAMESPACE: 'caches' };
      const { code, err } = await hearth(['ls', 'x'], { environment });
      assert.equal(code, 3);
      assert.match(err, /no agent runs in namespace caches on node node7 for StorageCluster main; see/);
      const query = new URL(server.requests[0]?.split(' ')[1] ?? '', 'http://server').searchParams;
      assert.equal(query.get('fieldSelector'), 'status.phase=Running,spec.nodeName=node7');
      assert.match(query.get('labelSelector') ?? '', /,hearth\.storage\/cluster=main$/);
    });

    it('names the missing right', async () => {
      server.execute = undefined;
      const { code, err } = await hearth(['pin', 'x']);
      assert.equal(code, 5);
      assert.match(err, /you may not run programs in pod hearth-system\/agent-b \(create pods\/exec\)/);
    });
  });

  describe('doctor', () => {
    it('checks the cluster and every node, and groups equal findings', async () => {
      const probes = [
        { name: 'fuse', status: 'ok', detail: 'it mounts', advice: '' },
        { name: 'passthrough', status: 'degraded', detail: 'Linux 6.1', advice: 'Use 6.9.' },
      ];
      server.execute = () => ({ stdout: JSON.stringify({ probes }) });
      const { code, out } = await hearth(['doctor']);
      assert.equal(code, 0, out);
      assert.match(out, /^DaemonSet hearth-csi-node: degraded: 1 of 2 ready$/m);
      assert.match(out, /^passthrough on node1, node2: degraded: Linux 6\.1\n {2}Use 6\.9\.$/m);
      assert.doesNotMatch(out, /^fuse/m);
      assert.match((await hearth(['doctor', '--all'])).out, /^fuse on node1, node2: ok: it mounts$/m);
    });

    it('exits with 13 when a node does not answer', async () => {
      const { code, out } = await hearth(['doctor']);
      assert.equal(code, 13);
      assert.match(out, /^doctor on node1: missing: you may not run programs/m);
    });
  });

  describe('support-bundle', () => {
    it('collects objects, logs, metrics and findings without secrets, and names what is missing', async () => {
      server.execute = () => ({ stdout: '{"probes":[]}' });
      server.texts['/api/v1/namespaces/hearth-system/pods/agent-b/log'] = () => 'a line of a log\n';
      const { code, out, err } = await hearth(['support-bundle', '-o', 'bundle.tar.gz']);
      assert.equal(code, 0, err);
      assert.match(out, /^Wrote .*\/bundle\.tar\.gz$/m);
      assert.match(err, /^Not in it: logs\/agent-a\.agent\.log: /m);
      assert.equal((await run('tar', ['-xzf', folder.file('bundle.tar.gz'), '-C', folder.path])).code, 0);
      const read = async (name: string) => (await run('cat', [folder.file('hearth-support', name)])).stdout;
      assert.equal(await read('logs/agent-b.agent.log'), 'a line of a log\n');
      assert.match(await read('objects/datasets.json'), /"llama"/);
      assert.match(await read('doctor.json'), /hearth-csi-node/);
      assert.match(await read('missing.txt'), /metrics\/node1\.txt: /);
      const pods = await read('objects/pods.json');
      assert.match(pods, /\(left out\)/);
      assert.doesNotMatch(pods, /a-secret-value/);
      assert.ok(!server.requests.some((one) => one.includes('/secrets')));
    });
  });
});
