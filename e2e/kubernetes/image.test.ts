import assert from 'node:assert/strict';
import { ok } from '@hearth/common/testing';
import { hearthImage, hearthImageName } from '../cluster/images/hearth_image.ts';
import { useCluster } from './cluster_fixture.ts';

const limitBytes = 200 * 2 ** 20;

describe('container image', () => {
  const cluster = useCluster();

  /** Runs a shell script in a pod of the image; returns what it wrote. */
  async function inImage(name: string, script: string, ofPod = {}, ofContainer = {}): Promise<string> {
    const pod = {
      apiVersion: 'v1',
      kind: 'Pod',
      metadata: { name },
      spec: {
        restartPolicy: 'Never',
        securityContext: ofPod,
        containers: [
          {
            name: 'main',
            image: hearthImageName,
            imagePullPolicy: 'Never',
            command: ['sh', '-ceu', script],
            securityContext: ofContainer,
          },
        ],
      },
    };
    await ok(cluster().kubectl(['apply', '-f', '-'], { input: JSON.stringify(pod) }));
    try {
      const phase = ['wait', '--for=jsonpath={.status.phase}=Succeeded', '--timeout=300s', `pod/${name}`];
      const ended = await cluster().kubectl(phase, { timeoutMs: 330_000 });
      const output = await ok(cluster().kubectl(['logs', name]));
      assert.equal(ended.code, 0, `${ended.stderr}\n${output}`);
      return output;
    } finally {
      await cluster().kubectl(['delete', 'pod', name, '--grace-period=0', '--force']);
    }
  }

  it('is smaller than 200 MiB compressed', async () => {
    const { compressedBytes } = await hearthImage();
    console.log(`      ${(compressedBytes / 2 ** 20).toFixed(0)} MiB`);
    assert.ok(compressedBytes < limitBytes, `${compressedBytes} bytes`);
  });

  it('runs as a user without rights, on a read-only root file system, by default', async () => {
    const script = 'id -u; hearth --version; test ! -w /opt/hearth; test ! -w /opt/hearth/compile-cache';
    const output = await inImage('image-user', script, { runAsNonRoot: true }, { readOnlyRootFilesystem: true });
    assert.match(output, /^65532\n\d+\.\d+\.\d+\n$/);
  });

  it('has its programs on the PATH, and mounts', async () => {
    const script = `
      hearth agent --help | head -n 1
      hearth-holder --help | head -n 1
      hearth-operator --help | head -n 1
      hearth-cleanup --help | head -n 1
      for program in hearth hearth-holder hearth-probe hearth-csi-node hearth-operator hearth-cleanup node; do
        command -v $program
      done
      mkdir /tmp/m
      mount -t tmpfs none /tmp/m
      umount --no-canonicalize /tmp/m`;
    const output = await inImage('image-programs', script, { runAsUser: 0 }, { privileged: true });
    const [agent, holder, operator, cleanup, ...programs] = output.trim().split('\n');
    assert.match(`${agent}`, /^Usage: hearth agent /);
    assert.match(`${holder}`, /^usage: hearth-holder /);
    assert.deepEqual([operator, cleanup], ['Usage: hearth-operator', 'Usage: hearth-cleanup']);
    const names = ['hearth', 'hearth-holder', 'hearth-probe', 'hearth-csi-node', 'hearth-operator', 'hearth-cleanup'];
    assert.deepEqual(
      programs,
      [...names, 'node'].map((name) => `/usr/local/bin/${name}`),
    );
  });

  it('loads the engine', async () => {
    const script = `node --input-type=commonjs -e "
      console.log(Object.keys(require('/opt/hearth/build/release/binding/hearth.node')).includes('open'))"`;
    assert.equal(await inImage('image-engine', script), 'true\n');
  });
});
