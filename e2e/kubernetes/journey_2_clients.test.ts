import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { MiB, ok, until } from '@hearth/common/testing';
import { releaseNamespace } from '@hearth/common/testing/kubernetes';
import { pod } from '../cluster/testing/pod.ts';
import { bundleGd2fsCat } from '../src/gd2fs_program.ts';
import { driver, useJourney, waiting } from './journey.ts';

/** More than a pipe and one read of the program hold, so that it still has the file open when its first bytes are there. */
const size = 9 * MiB + 5;

describe('programs in pods that read through libgd2fs', () => {
  const journey = useJourney('clients');
  let gd2fsCat: string;
  let digest: string;

  before(async () => {
    gd2fsCat = await bundleGd2fsCat(join(journey().shared, 'gd2fs'), '/gd2fs');
    for (const name of ['model', 'secret']) {
      const path = journey().sample(`clients/${name}`, { weights: size });
      await journey().apply(journey().dataset(name, { directory: { path } }));
      await journey().ready(`dataset/${name}`);
      if (name === 'model') digest = readFileSync(join(path, 'SHA256SUMS'), 'utf8').slice(0, 64);
    }
  });

  const access = (attributes: Record<string, string>) => ({
    csi: { driver, readOnly: true, volumeAttributes: { clientAccess: 'true', ...attributes } },
  });
  /** A pod with the program, in which the volume lies where libgd2fs looks. */
  const client = (name: string, volume: object) => {
    const made = pod(name, 'node1', waiting, {
      container: {
        volumeMounts: [
          { name: 'hearth', mountPath: '/var/run/hearth', readOnly: true },
          { name: 'program', mountPath: '/gd2fs', readOnly: true },
        ],
      },
      volumes: [
        { name: 'hearth', ...volume },
        { name: 'program', hostPath: { path: join(journey().shared, 'gd2fs') } },
      ],
    });
    const securityContext = { runAsUser: 1000, runAsNonRoot: true, fsGroup: 2000 };
    return { ...made, spec: { ...made.spec, securityContext } };
  };
  const logsOf = (component: string) => {
    const select = ['-l', `app.kubernetes.io/component=${component}`, '--tail=-1'];
    return ok(journey().cluster.kubectl(['-n', releaseNamespace, 'logs', ...select]));
  };
  const cat = (dataset: string) => `${gd2fsCat} /var/run/hearth /dataset/clients.${dataset}/weights`;

  it('read the Dataset that the volume names', async () => {
    await journey().apply(client('reader', access({ datasets: 'model' })));
    await journey().ready('pod/reader');
    const names = (await ok(journey().inPod('reader', 'ls -A /var/run/hearth'))).trim().split('\n');
    assert.equal((await ok(journey().inPod('reader', 'stat -c "%a %g" /var/run/hearth/token'))).trim(), '440 2000');
    assert.deepEqual(names, ['addresses', 'agent', 'clients.sock', 'cluster', 'token']);
    const sum = await ok(journey().inPod('reader', `${cat('model')} | sha256sum`));
    assert.equal(sum.slice(0, 64), digest);
  });

  it('open whole files of the node themselves, by the socket in the volume', async () => {
    const opened = `for file in /proc/[0-9]*/fd/*; do stat -L -c %s $file 2>/dev/null; done | grep -x ${size}`;
    await until('the file is whole on the node', async () => {
      const { code } = await journey().inPod(
        'reader',
        `${cat('model')} | { dd bs=1 count=1 2>/dev/null >/dev/null; ${opened}; }`,
      );
      return code === 0;
    });
  });

  it('cannot read a Dataset that the volume does not name, nor learn whether it is there', async () => {
    for (const dataset of ['secret', 'none']) {
      const { code, stderr } = await journey().inPod('reader', cat(dataset));
      assert.equal(code, 1);
      assert.match(stderr, new RegExp(`clients\\.${dataset}/weights: Permission denied`));
    }
  });

  it('are shown the token alone, which nothing else tells', async () => {
    const token = await ok(journey().inPod('reader', 'cat /var/run/hearth/token'));
    assert.match(token, /^hearth-token-1\./);
    assert.notEqual((await journey().inPod('reader', 'echo x > /var/run/hearth/token')).code, 0);
    const told = [
      await journey().must('get', 'pod', 'reader', '-o', 'yaml'),
      await journey().events('reader'),
      await logsOf('csi-node'),
      await logsOf('agent'),
    ];
    for (const text of told) {
      assert.notEqual(text, '');
      assert.ok(!text.includes('hearth-token'));
    }
  });

  it('are given a new token when csi-node was restarted', async () => {
    const before = await ok(journey().inPod('reader', 'cat /var/run/hearth/token'));
    const [node] = journey().cluster.nodes;
    assert.ok(node);
    for (const { metadata } of await journey().partOn('csi-node', node)) {
      await ok(journey().cluster.kubectl(['-n', releaseNamespace, 'delete', 'pod', metadata.name, '--wait=false']));
    }
    await until('the token is another one', async () => {
      const { code, stdout } = await journey().inPod('reader', 'cat /var/run/hearth/token');
      return code === 0 && stdout !== before;
    });
    await ok(journey().inPod('reader', `${cat('model')} | sha256sum`));
  });

  it('wait for a Dataset that is not there, with a sentence in an event', async () => {
    await journey().apply(client('early', access({ datasets: 'later' })));
    await journey().event('early', /cannot read Dataset clients\/later/);
    await journey().remove('pod/early', 'pod/reader');
  });
});
