import assert from 'node:assert/strict';
import { nodeStatus } from '../agents/testing/fake_agent.ts';
import { ReboundPods } from './rebound_pods.ts';

const agentOf = (...names: string[]) => {
  const pods = names.map((name) => ({ namespace: 'team', name, uid: `uid of ${name}` }));
  return nodeStatus('n1', { capabilities: [{ name: 'volumes', ready: names.length === 0, reason: '', pods }] });
};

describe('pods whose mounts died', () => {
  let told: string[];
  let pods: ReboundPods;
  beforeEach(() => {
    told = [];
    pods = new ReboundPods({
      eventFor: (type, { metadata }, kind, reason, message) => {
        assert.deepEqual(
          [type.kind, kind, reason, metadata?.uid],
          ['Pod', 'Warning', 'VolumeRebound', `uid of ${metadata?.name}`],
        );
        assert.match(message, /Restart the pod, unless .* HostToContainer/);
        told.push(`${metadata?.namespace}/${metadata?.name}`);
      },
    });
  });

  it('are told once each, and again when it happens again', () => {
    pods.tell('n1', agentOf());
    pods.tell('n1', agentOf('a'));
    pods.tell('n1', agentOf('a', 'b'));
    pods.tell('n1', undefined);
    pods.tell('n1', agentOf('a', 'b'));
    assert.deepEqual(told, ['team/a', 'team/b']);
    pods.tell('n1', agentOf('b'));
    pods.tell('n1', agentOf('a', 'b'));
    assert.deepEqual(told, ['team/a', 'team/b', 'team/a']);
  });

  it('are each of their node, and without an id of nobody', () => {
    pods.tell('n1', agentOf('a'));
    pods.tell('n2', agentOf('b'));
    pods.forget('n1');
    pods.tell('n2', agentOf('b'));
    assert.deepEqual(told, ['team/a', 'team/b']);
    const capabilities = [
      { name: 'volumes', ready: false, reason: '', pods: [{ namespace: 'team', name: 'c', uid: '' }] },
    ];
    pods.tell('n1', nodeStatus('n1', { capabilities }));
    assert.equal(told.length, 2);
  });
});
