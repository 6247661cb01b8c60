import assert from 'node:assert/strict';
import { readConfiguration, usage } from './configuration.ts';

describe('the configuration', () => {
  it('needs no more than the name of the node', () => {
    assert.deepEqual(readConfiguration(['--node', 'n1'], {}), {
      node: 'n1',
      socket: '/var/lib/kubelet/plugins/csi.hearth.storage/csi.sock',
      services: 'node',
      cluster: undefined,
      stateDirectory: '/var/lib/hearth',
      kubeletDirectory: '/var/lib/kubelet',
      registrationDirectory: '/var/lib/kubelet/plugins_registry',
      health: undefined,
      nodeGroupsFile: undefined,
      logLevel: 'info',
      logFormat: 'auto',
    });
  });

  it('takes variables, and flags before them', () => {
    const environment = {
      HEARTH_NODE: 'n1',
      HEARTH_KUBELET_DIRECTORY: '/data/kubelet/',
      HEARTH_HEALTH_LISTEN: '[::1]:7530',
      HEARTH_CLUSTER: 'c',
    };
    const read = readConfiguration(['--node=n2', '--registration-directory', 'none', '--services', 'all'], environment);
    assert.equal(read.node, 'n2');
    assert.equal(read.kubeletDirectory, '/data/kubelet');
    assert.equal(read.socket, '/data/kubelet/plugins/csi.hearth.storage/csi.sock');
    assert.equal(read.registrationDirectory, undefined);
    assert.deepEqual(read.health, { host: '::1', port: 7530 });
    assert.equal(read.cluster, 'c');
    assert.equal(readConfiguration(['--node', 'n', '--endpoint', 'unix:///a/b.sock'], {}).socket, '/a/b.sock');
  });

  it('names the flag and the variable that is wrong', () => {
    const message = (args: string[]) => {
      try {
        readConfiguration(args, { HEARTH_NODE: 'n1' });
      } catch (thrown) {
        return (thrown as Error).message;
      }
      return assert.fail(args.join(' '));
    };
    assert.equal(message(['--node', '']), '--node (HEARTH_NODE) must be the name of a node in Kubernetes');
    assert.equal(message(['--endpoint', '/a.sock']), '--endpoint (HEARTH_CSI_ENDPOINT) must be unix:///PATH');
    assert.equal(message(['--services', 'x']), '--services (HEARTH_CSI_SERVICES) must be node or all');
    assert.match(message(['--state-directory', 'x']), /^--state-directory .* must be an absolute path$/);
    assert.match(message(['--registration-directory', 'x']), /must be an absolute path or none$/);
    assert.match(message(['--health-listen', 'x']), /must be HOST:PORT/);
    assert.match(message(['--log-level', 'x']), /must be debug, info, warn or error/);
    assert.match(message(['--nod', 'x']), /--nod.*see --help/);
    assert.match(message(['stray']), /stray.*see --help/);
  });

  it('is described by --help', () => {
    for (const flag of ['--node NAME', '--kubelet-directory PATH', '[/var/lib/hearth]', 'HEARTH_CSI_ENDPOINT']) {
      assert.ok(usage().includes(flag), flag);
    }
  });
});
