import assert from 'node:assert/strict';
import { until } from '@hearth/common/testing';
import { releaseNamespace } from '@hearth/common/testing/kubernetes';
import { clusterName, useJourney, waiting } from './journey.ts';

const kv = { persistentVolumeClaim: { claimName: 'kv' } };

describe('claims of scratch volumes', function () {
  this.timeout(600_000);
  const journey = useJourney('scratch');
  /** What `hearth` prints in an agent. */
  const hearth = (...words: string[]) => {
    const agent = `ds/hearth-${clusterName}-all-agent`;
    return journey().cluster.kubectl(['exec', '-n', releaseNamespace, agent, '--', 'hearth', ...words]);
  };
  const succeed = async (pod: string, command: string) => {
    const { code, stdout, stderr } = await journey().inPod(pod, command);
    assert.equal(code, 0, stderr);
    return stdout;
  };
  let volume: string;

  it('are bound without a Dataset, and a pod of each node mounts the volume', async () => {
    await journey().apply(
      journey().scratchClaim('kv', '64Mi'),
      journey().reader('one', kv, { node: 'node1', command: waiting }),
      journey().reader('two', kv, { node: 'node2', command: waiting }),
    );
    for (const name of ['one', 'two']) await journey().ready(`pod/${name}`);
    const claim = await journey().get('persistentvolumeclaim', 'kv');
    volume = claim?.spec.volumeName;
    assert.match((await hearth('volume', 'ls')).stdout, new RegExp(`^${volume} .*scratch`, 'm'));
  });

  it('show each node what another has written, byte by byte', async () => {
    const write = 'head -c 9000001 /dev/urandom > /models/block.part && mv /models/block.part /models/block';
    for (const [writer, reader] of [
      ['one', 'two'],
      ['two', 'one'],
    ] as const) {
      await succeed(writer, write);
      const digest = 'sha256sum < /models/block';
      assert.equal(await succeed(reader, digest), await succeed(writer, digest), `${writer} wrote`);
      await succeed(reader, 'rm /models/block');
      assert.notEqual((await journey().inPod(writer, 'cat /models/block')).code, 0, 'it is gone on both nodes');
    }
  });

  it('are full at the size that they ask for, and say so', async () => {
    // The limit is for published files, so close(2) reports it.
    const copy = 'head -c 80000000 /dev/zero > /tmp/large && cp /tmp/large /models/large';
    const { code, stderr } = await journey().inPod('one', copy);
    assert.notEqual(code, 0);
    assert.match(stderr, /No space left on device/);
    await succeed('one', 'rm -f /models/large');
    await until(
      'the volume takes files again',
      async () => (await journey().inPod('two', 'echo 1 > /models/small')).code === 0,
    );
    const [, size] = (await succeed('two', 'df -kP /models | tail -n 1')).trim().split(/ +/);
    assert.equal(Number(size), 64 * 1024);
  });

  it('take ten times their size from one node while another reads, and refuse no write', async () => {
    // Each file is called after its bytes. A file that was evicted between the listing and its open is absent.
    const write = `set -e
      for i in $(seq 320); do
        head -c 2097152 /dev/urandom > /models/part
        mv /models/part /models/block-$(sha256sum < /models/part | cut -d ' ' -f 1)
      done
      touch /models/written`;
    const read = `read=0 wrong=0
      until [ -e /models/written ]; do
        for file in /models/block-*; do
          if { digest=$(sha256sum | cut -d ' ' -f 1); } 2> /dev/null < $file; then
            if [ /models/block-$digest = $file ]; then read=$((read + 1)); else wrong=$((wrong + 1)); fi
          fi
        done
      done
      [ $read -gt 0 ] && echo $wrong wrong`;
    const [, found] = await Promise.all([succeed('one', write), succeed('two', read)]);
    assert.equal(found, '0 wrong\n');
    const [, , used] = (await succeed('two', 'df -kP /models | tail -n 1')).trim().split(/ +/);
    assert.ok(Number(used) <= 64 * 1024, `${used} KiB are used`);
    await succeed('one', 'rm -f /models/block-* /models/written');
  });

  it('grow with their claims, under the pods that have them', async () => {
    const size = JSON.stringify({ spec: { resources: { requests: { storage: '96Mi' } } } });
    await journey().must('patch', 'persistentvolumeclaim/kv', '-p', size);
    for (const pod of ['one', 'two']) {
      await until(`${pod} sees the new size`, async () => {
        const [, total] = (await succeed(pod, 'df -kP /models | tail -n 1')).trim().split(/ +/);
        return Number(total) === 96 * 1024;
      });
    }
    await succeed('one', 'head -c 80000000 /dev/zero > /models/large && rm /models/large');
    await until('the claim has the size', async () => {
      return (await journey().get('persistentvolumeclaim', 'kv'))?.status.capacity.storage === '96Mi';
    });
    assert.match((await hearth('volume', 'show', volume)).stdout, /^Evicted +\d+ files/m);
    const smaller = JSON.stringify({ spec: { resources: { requests: { storage: '64Mi' } } } });
    const { code } = await journey().kubectl(['patch', 'persistentvolumeclaim/kv', '-p', smaller]);
    assert.notEqual(code, 0, 'a claim does not shrink');
  });

  it('let the group of a pod write, and nobody into a mount that the pod wants read-only', async () => {
    const writer = journey().reader('grouped', kv, {
      command: 'id -u; mkdir /models/own && echo 2 > /models/own/file',
    });
    writer.spec.securityContext = { runAsUser: 1000, runAsGroup: 1000, fsGroup: 2000 };
    const claim = { persistentVolumeClaim: { claimName: 'kv', readOnly: true } };
    const reader = journey().reader('frozen', claim, { node: 'node2', command: waiting });
    await journey().apply(writer, reader);
    assert.equal((await journey().finished('grouped')).trim(), '1000');
    await journey().ready('pod/frozen');
    assert.equal(await succeed('frozen', 'cat /models/own/file; stat -c %g /models/own/file'), '2\n2000\n');
    assert.match((await journey().inPod('frozen', 'echo 3 > /models/x')).stderr, /Read-only file system/);
  });

  it('are made for a single pod that asks for an ephemeral volume, and go with it', async () => {
    const { spec } = journey().scratchClaim('own', '16Mi');
    const own = { ephemeral: { volumeClaimTemplate: { spec: { ...spec, accessModes: ['ReadWriteOncePod'] } } } };
    await journey().apply(journey().reader('alone', own, { command: 'echo 4 > /models/file && cat /models/file' }));
    assert.equal(await journey().finished('alone'), '4\n');
    const name = (await journey().get('persistentvolumeclaim', 'alone-models'))?.spec.volumeName;
    await journey().remove('pod/alone');
    await until('its volume is gone', async () => (await journey().get('persistentvolume', name)) === undefined);
  });

  it('keep their files while agents restart under pods', async () => {
    await succeed('one', 'echo before > /models/kept');
    for (const node of journey().cluster.nodes) {
      const [agent] = await journey().partOn('agent', node);
      const name = agent?.metadata.name ?? '';
      await journey().cluster.kubectl(['-n', releaseNamespace, 'delete', 'pod', name, '--wait=true']);
    }
    await journey().ready(`storagecluster/${clusterName}`);
    await until('the other node reads it', async () => {
      return (await journey().inPod('two', 'cat /models/kept')).stdout === 'before\n';
    });
    await until('a node writes', async () => (await journey().inPod('two', 'echo after > /models/kept')).code === 0);
    await until('the first node sees it', async () => {
      return (await journey().inPod('one', 'cat /models/kept')).stdout === 'after\n';
    });
  });

  it('are removed with their files when the claim goes, after the pods', async () => {
    const claim = 'persistentvolumeclaim/kv';
    await journey().must('delete', claim, '--wait=false');
    assert.equal(await succeed('two', 'cat /models/kept'), 'after\n', 'pods keep the claim');
    await journey().remove('pod/one', 'pod/two', 'pod/grouped', 'pod/frozen');
    await journey().must('wait', '--for=delete', claim, '--timeout=300s');
    await until('the volume is gone', async () => !(await hearth('volume', 'ls')).stdout.includes(volume));
    await until('its object is gone', async () => (await journey().get('persistentvolume', volume)) === undefined);
  });
});
