import assert from 'node:assert/strict';
import { writeFileSync } from 'node:fs';
import { delimiter, join } from 'node:path';
import { root, run, TemporaryFolder } from '@hearth/common/testing';

/** Answers as kubectl does, and writes how it was called. */
const kubectl = `#!/bin/sh
case "$1" in
  get)
    case "$*" in
      *go-template*) printf 'app=web,tier=a,' ;;
      *schedulingGates*) printf '%s\\n' "$*" >>"$CALLS"; printf "$ITS_PODS" ;;
      *) printf '%s\\n' "$*" >"$CALLS"; printf "$PODS" ;;
    esac ;;
  config) printf "$HERE" ;;
  exec) printf '<%s>' "$@" ;;
esac
`;

describe('kubectl hearth', () => {
  let folder: TemporaryFolder;
  before(() => {
    folder = new TemporaryFolder('plugin');
    writeFileSync(folder.file('kubectl'), kubectl, { mode: 0o755 });
  });
  after(() => folder.remove());

  const plugin = (words: string[], environment: Record<string, string> = {}) =>
    run(join(root, 'cli/bin/kubectl-hearth'), words, {
      environment: {
        PATH: [folder.path, process.env.PATH].join(delimiter),
        CALLS: folder.file('calls'),
        PODS: 'False agent-a\\nTrue agent-b\\n',
        HERE: 'team',
        ...environment,
      },
    });

  it('runs the command in the pod of an agent that is ready, with its words as they are', async () => {
    const { code, stdout } = await plugin(['evict', 'team.llama', '*.bin', 'a b']);
    assert.equal(code, 0);
    const wanted = ['exec', '-n', 'hearth-system', 'agent-b', '-c', 'agent', '--', 'hearth'];
    assert.equal(stdout, [...wanted, 'evict', 'team.llama', '*.bin', 'a b'].map((word) => `<${word}>`).join(''));
  });

  it('explains pods of the namespace that kubectl is in, unless another is named', async () => {
    const namespaced = async (words: string[], environment = {}) =>
      (await plugin(['explain', ...words], environment)).stdout.replace(/^.*<hearth>/, '');
    assert.equal(await namespaced(['pod/web']), '<explain><-n><team><pod/web>');
    assert.equal(await namespaced(['pod/web'], { HERE: '' }), '<explain><-n><default><pod/web>');
    assert.equal(await namespaced(['pod/web', '-n', 'other']), '<explain><pod/web><-n><other>');
    assert.equal(await namespaced(['pod/web', '--namespace=other']), '<explain><pod/web><--namespace=other>');
  });

  it('explains the pod of a Deployment that has come least far, the youngest of several', async () => {
    const ITS_PODS = '|n1|Running|old\\n|n1|Running|young\\nhearth.storage/preload||Pending|held\\n||Pending|free\\n';
    const { stdout } = await plugin(['explain', 'deployment/web', '--json'], { ITS_PODS });
    assert.match(stdout, /<hearth><explain><-n><team><pod\/held><--json>$/);
    const calls = await run('cat', [folder.file('calls')]);
    assert.match(calls.stdout, /get pods -n team -l app=web,tier=a --sort-by/);
    const running = await plugin(['explain', '-n', 'other', 'sts/web'], {
      ITS_PODS: '|n1|Running|a\\n|n1|Running|b\\n',
    });
    assert.match(running.stdout, /<explain><-n><other><pod\/b>$/);
  });

  it('says so of a Deployment without pods', async () => {
    const { code, stderr } = await plugin(['explain', 'deploy/web'], { ITS_PODS: '' });
    assert.equal(code, 1);
    assert.match(stderr, /deploy\/web has no pod in namespace team; see kubectl describe deploy\/web -n team/);
  });

  it('asks the agent of the node, the StorageCluster and the release that are named', async () => {
    const named = { HEARTH_NODE: 'node7', HEARTH_CLUSTER: 'main', HEARTH_NAMESPACE: 'caches' };
    assert.match((await plugin(['status'], named)).stdout, /<-n><caches>/);
    const { stdout } = await run('cat', [folder.file('calls')]);
    for (const part of ['-n caches', ',hearth.storage/cluster=main ', ',spec.nodeName=node7 ']) {
      assert.ok(stdout.includes(part), `${part}: ${stdout}`);
    }
  });

  it('says so where no agent runs', async () => {
    const { code, stderr } = await plugin(['status'], { PODS: '', HEARTH_NODE: 'node9' });
    assert.equal(code, 1);
    assert.match(stderr, /no agent runs in namespace hearth-system on node node9; see kubectl get storageclusters/);
  });
});
