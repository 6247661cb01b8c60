import assert from 'node:assert/strict';
import { delimiter, dirname, join } from 'node:path';
import { bytesOf, MiB, ok, root, run, sha256, TemporaryFolder, tools, until } from '@hearth/common/testing';
import { releaseNamespace } from '@hearth/common/testing/kubernetes';
import { clusterName, inline, ofClaim, useJourney, verifying } from './journey.ts';

describe('from nothing to a pod with a model', () => {
  const journey = useJourney('first');

  /** The cells of a table of kubectl, by the names of its columns. */
  async function table(...args: string[]): Promise<Record<string, string>[]> {
    const lines = (await journey().must('get', ...args)).trimEnd().split('\n');
    const [header = '', ...rows] = lines;
    const starts = [...header.matchAll(/\S+/g)].map((match) => [match[0], match.index] as const);
    return rows.map((row) =>
      Object.fromEntries(starts.map(([name, start], index) => [name, row.slice(start, starts[index + 1]?.[1]).trim()])),
    );
  }

  it('has a StorageCluster that is ready on all nodes', async () => {
    const [main] = await until('its figures', async () => {
      const rows = await table('storageclusters');
      return rows[0]?.CAPACITY !== '0' && rows;
    });
    assert.deepEqual([main?.NAME, main?.READY, main?.NODES, main?.DESIRED], [clusterName, 'True', '2', '2']);
    assert.match(main?.CAPACITY ?? '', /^[1-9]\d*$/);
    // Written by themselves, from the same answer of an agent.
    const nodes = await until('its nodes are ready too', async () => {
      const rows = await table('nodecaches');
      return rows.length === 2 && rows.every(({ READY }) => READY === 'True') && rows;
    });
    assert.deepEqual(
      nodes.map((one) => [one.NAME, one.CLUSTER]),
      [
        ['node1', clusterName],
        ['node2', clusterName],
      ],
    );
    for (const one of nodes)
      for (const column of ['BUDGET', 'USED', 'RESIDENT', 'PERCENT']) {
        assert.match(one[column] ?? '', /^\d+$/, column);
      }
  });

  it('passes helm test', async () => {
    const output = await ok(
      journey().cluster.helm(['test', 'hearth', '-n', releaseNamespace, '--logs', '--timeout', '8m']),
    );
    assert.match(output, /Phase: +Succeeded/);
    assert.match(output, /the volume is read-only and every byte is right/);
  });

  const sources: Record<string, { files: number; source: () => object }> = {
    selftest: { files: 67, source: () => ({ selfTest: {} }) },
    folder: {
      files: 5,
      source: () => {
        const sizes = { 'model.safetensors': 9 * MiB + 5, 'config.json': 700, 'x/empty': 0, 'x/y/z': 4096 };
        return { directory: { path: journey().sample('first', sizes) } };
      },
    },
    web: {
      files: 3,
      source: () => {
        const weights = bytesOf(7, 9 * MiB + 3);
        const config = bytesOf(8, 777);
        const sums = `${sha256(weights)}  weights.bin\n${sha256(config)}  config.json\n`;
        return {
          http: {
            urls: [
              journey().origin.add('weights.bin', weights),
              journey().origin.add('config.json', config),
              journey().origin.add('SHA256SUMS', Buffer.from(sums)),
            ],
          },
        };
      },
    },
  };

  for (const [name, { files, source }] of Object.entries(sources)) {
    it(`reads ${name} in a pod through a claim, every byte`, async () => {
      await journey().apply(
        journey().dataset(name, source()),
        journey().claim(name),
        journey().reader(name, ofClaim(name), { command: verifying }),
      );
      await journey().ready(`dataset/${name}`);
      const status = (await journey().get('dataset', name))?.status;
      assert.equal(status.files, files);
      assert.ok(Number.isInteger(status.bytes) && status.bytes > 0);
      assert.match(status.manifest, /^[0-9a-f]{64}$/);
      const log = await journey().finished(name);
      assert.equal(log.match(/: OK\n/g)?.length, files - 1, log);
      const claim = await journey().get('persistentvolumeclaim', name);
      assert.equal(claim?.status.phase, 'Bound');
      const volume = await journey().get('persistentvolume', claim?.spec.volumeName);
      assert.equal(volume?.spec.csi.volumeAttributes.dataset, name);
      assert.ok(Number(volume?.spec.capacity.storage) >= status.bytes || /[KMG]i$/.test(volume?.spec.capacity.storage));
      await journey().event(name, /Ready: /);
    });
  }

  it("answers the commands of docs/install.md in an agent's pod, without options", async () => {
    const hearth = (...words: string[]) => {
      const agent = `ds/hearth-${clusterName}-all-agent`;
      return ok(journey().cluster.kubectl(['exec', '-n', releaseNamespace, agent, '--', 'hearth', ...words]));
    };
    const status = await hearth('status');
    for (const part of ['node1', 'node2', 'first.folder']) assert.ok(status.includes(part), status);
    await hearth('pin', 'first.folder');
    await hearth('unpin', 'first.folder');
    await hearth('evict', 'first.folder', '--node', 'node1');
    const { kubectl } = await tools(['kubectl']);
    const environment = {
      ...process.env,
      PATH: [dirname(kubectl), process.env.PATH].join(delimiter),
      KUBECONFIG: journey().cluster.kubeconfig,
    };
    const plugin = join(root, 'cli/bin/kubectl-hearth');
    const outside = (...words: string[]) => ok(run(plugin, words, { environment, timeoutMs: 300_000 }));
    // Agents hear of an eviction one after the other.
    await until(
      'kubectl hearth and an agent list the same datasets',
      async () => (await outside('dataset', 'ls')) === (await hearth('dataset', 'ls')),
    );
    assert.match(await outside('explain', 'pod/folder', '-n', 'first'), /first\/folder/);
    const operator = ['exec', '-n', releaseNamespace, 'deployment/hearth-operator', '--', 'hearth'];
    const explained = await ok(journey().cluster.kubectl([...operator, 'explain', 'pod/folder', '-n', 'first']));
    assert.match(explained, /first\/folder/);
    assert.match(await outside('status'), /^node1 +ready /m);
    const activities = JSON.parse(await outside('top', '--json')) as {
      node: string;
      usedBytes: number;
      trouble: string;
    }[];
    assert.deepEqual(
      activities.map(({ node, trouble }) => [node, trouble]),
      [
        ['node1', ''],
        ['node2', ''],
      ],
    );
    assert.ok(
      activities.some(({ usedBytes }) => usedBytes > 0),
      JSON.stringify(activities),
    );
    assert.match(await outside('warm', 'first/folder', '--node', 'node2'), /^warm-folder-\w+ Ready 100%: /m);
    const doctor = await run(plugin, ['doctor', '--all'], { environment, timeoutMs: 300_000 });
    assert.match(doctor.stdout, /^kernel on node1, node2: ok: /m, doctor.stdout + doctor.stderr);
    const bundle = new TemporaryFolder('support-bundle');
    const archive = bundle.file('b.tar.gz');
    await outside('support-bundle', '-o', archive);
    const names = (await ok(run('tar', ['-tzf', archive]))).split('\n');
    await bundle.remove();
    for (const name of ['objects/datasets.json', 'metrics/node1.txt', 'metrics/node2.txt', 'doctor.json']) {
      assert.ok(names.includes(`hearth-support/${name}`), names.join('\n'));
    }
    assert.ok(
      names.some((name) => /logs\/hearth-operator-.*\.log$/.test(name)),
      names.join('\n'),
    );
  });

  it('shows Datasets with integers', async () => {
    const rows = await table('datasets');
    assert.deepEqual(rows.map((one) => one.NAME).sort(), Object.keys(sources).sort());
    for (const row of rows) {
      assert.equal(row.READY, 'True');
      for (const column of ['FILES', 'BYTES', 'PERCENT', 'NODES']) assert.match(row[column] ?? '', /^\d+$/, column);
    }
  });

  it('reads on the other node, from the first one', async () => {
    const sent = journey().origin.sentBytes;
    await journey().apply(journey().reader('other', inline('web'), { command: verifying, node: 'node2' }));
    await journey().finished('other');
    assert.equal(journey().origin.sentBytes, sent, 'the origin was not asked again');
  });
});
