import assert from 'node:assert/strict';
import { mkdirSync, writeFileSync } from 'node:fs';
import { HearthError } from '@hearth/common';
import { TemporaryFolder } from '@hearth/common/testing';
import { connect } from './connection.ts';

const kubeconfig = (context: string) => `
apiVersion: v1
kind: Config
current-context: ${context}
clusters: [{ name: cluster, cluster: { server: "https://192.0.2.1:6443" } }]
users: [{ name: user, user: { token: t } }]
contexts: [{ name: known, context: { cluster: cluster, user: user, namespace: team } }]
`;

describe('connection of hearth explain', () => {
  let folder: TemporaryFolder;
  const saved = { HOME: process.env.HOME, KUBECONFIG: process.env.KUBECONFIG };
  beforeEach(() => {
    folder = new TemporaryFolder('explain');
    process.env.HOME = folder.path;
    delete process.env.KUBECONFIG;
  });
  afterEach(async () => {
    await folder.remove();
    for (const [name, value] of Object.entries(saved)) {
      if (value === undefined) delete process.env[name];
      else process.env[name] = value;
    }
  });

  const write = (file: string, text: string) => {
    writeFileSync(file, text);
    return file;
  };
  const refusal = async (options: { kubeconfig?: string } = {}) => {
    try {
      await connect(options, {});
    } catch (thrown) {
      assert.ok(thrown instanceof HearthError);
      assert.equal(thrown.code, 'InvalidArgument');
      return thrown.message;
    }
    return assert.fail('it connected');
  };

  it('takes the namespace from the given kubeconfig, or from the one in the home folder', async () => {
    const file = write(folder.file('config'), kubeconfig('known'));
    assert.equal((await connect({ kubeconfig: file }, {})).namespace, 'team');
    assert.equal((await connect({}, { KUBECONFIG: file })).namespace, 'team');
    mkdirSync(folder.file('.kube'));
    write(folder.file('.kube', 'config'), kubeconfig('known'));
    assert.equal((await connect({}, {})).namespace, 'team');
  });

  it('names a context missing in the kubeconfig', async () => {
    assert.match(await refusal({ kubeconfig: write(folder.file('config'), kubeconfig('other')) }), /no context other/);
  });

  it('connects to nothing without a kubeconfig or service account', async () => {
    assert.match(await refusal(), /there is no kubeconfig .* no service account of a pod; give --kubeconfig/);
  });
});
