import assert from 'node:assert/strict';
import { run, TemporaryFolder } from '@hearth/common/testing';
import { FakeApiServer } from '../src/kubectl/testing/fake_api_server.ts';
import { sampleCluster } from '../src/kubectl/testing/sample_cluster.ts';
import { bundleKubectl } from './bundle.ts';

describe('kubectl hearth as one file', () => {
  let folder: TemporaryFolder;
  let server: FakeApiServer;
  before(async () => {
    folder = new TemporaryFolder('kubectl-bundle');
    server = await FakeApiServer.start(sampleCluster());
    server.texts['/version'] = () => '{"major":"1","minor":"36","gitVersion":"v1.36.3"}';
    server.execute = () => ({ stdout: '{"probes":[]}' });
    await bundleKubectl(folder.file('kubectl-hearth.cjs'));
  });
  after(async () => {
    await server[Symbol.asyncDispose]();
    await folder.remove();
  });

  const hearth = (...words: string[]) =>
    run(process.execPath, [folder.file('kubectl-hearth.cjs'), ...words], {
      environment: { KUBECONFIG: server.kubeconfig, NODE_PATH: '' },
    });

  it('needs no other file', async () => {
    const { code, stdout, stderr } = await hearth('explain', 'deployment/web');
    assert.equal(code, 0, stderr);
    assert.match(stdout, /^Pod team\/web-0: held back until its bytes are there/);
    assert.equal((await hearth('status')).code, 0);
    const doctor = await hearth('doctor');
    assert.equal(doctor.code, 0, doctor.stdout);
    const bundle = await hearth('support-bundle', '-o', folder.file('b.tar.gz'));
    assert.equal(bundle.code, 0, bundle.stderr);
    assert.match((await hearth('--version')).stdout, /^\d+\.\d+\.\d+\n$/);
    assert.match((await hearth('explain', 'pod/other')).stderr, /^kubectl hearth: there is no pod team\/other/);
  });
});
