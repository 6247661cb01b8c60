import { dirname } from 'node:path/posix';
import type { DaemonSet } from '@hearth/common/kubernetes';
import { type NodeGroup, parseDuration } from '@hearth/common/resources';
import { holderSetName, holderSocket, nodeFolder } from '../names.ts';
import { arenaBytes, filesBytes, inMebibytes } from './agent_memory.ts';
import type { BuildInput, DesiredObject } from './desired_object.ts';
import { hostFolder, nodeDaemonSet, sharedMount } from './pod.ts';

const MiB = 1n << 20n;
const ownRequest = 16n * MiB;
/** Room for ten thousand mounts of some kilobytes, since mounts end with their holder. */
const ownLimit = 256n * MiB;

/**
 * The agent's arena, its whole files and the holder's own memory. The kernel accounts huge pages separately, which
 * only the arena takes.
 */
function resources(group: NodeGroup) {
  const arena = arenaBytes(group);
  const { hugePages } = group.engine;
  const files = filesBytes(group);
  const memory = hugePages === undefined ? arena + files : files;
  const pages = hugePages === undefined ? {} : { [`hugepages-${hugePages}`]: inMebibytes(arena) };
  return {
    requests: { cpu: '10m', memory: inMebibytes(ownRequest + memory), ...pages },
    limits: { memory: inMebibytes(ownLimit + memory), ...pages },
  };
}

/**
 * The mount holders of a node group. Mounts end with their holder, so only a person deletes its pods (OnDelete), and
 * the template avoids fields that change often. A surge with --take-over does not work: the kubelet restarts the old
 * container, which would take the mounts back.
 */
export function holderDaemonSet(input: BuildInput & { group: NodeGroup }): DesiredObject<DaemonSet> {
  const { cluster, environment, group } = input;
  const { name } = cluster.metadata;
  const { extraEnv } = environment.pods.holder;
  const absence = Math.ceil((parseDuration(cluster.spec.agentAbsence) ?? 900_000) / 1000);
  return nodeDaemonSet(input, 'holder', {
    name: holderSetName(name, group.name),
    updateStrategy: { type: 'OnDelete' },
    container: {
      command: [
        'hearth-holder',
        ...['--socket', holderSocket(name)],
        ...['--volumes', nodeFolder(name)],
        ...['--agent-absence', String(absence)],
        ...['--arena-bytes', String(arenaBytes(group) + filesBytes(group))],
      ],
      ...(extraEnv.length === 0 ? {} : { env: extraEnv }),
      // A report only: a liveness probe would end the mounts with the holder.
      readinessProbe: {
        exec: { command: ['hearth-holder', '--check', '--socket', holderSocket(name)] },
        periodSeconds: 10,
        timeoutSeconds: 5,
      },
      resources: resources(group),
      volumeMounts: [
        sharedMount('node', nodeFolder(name)),
        // Only creates the directory: a mount below the shared one would propagate to the node with each new container.
        { name: 'run', mountPath: '/run/hearth' },
        // Aborts FUSE connections and sets read-ahead; mounted whenever fuse is loaded.
        { name: 'sys', mountPath: '/sys', mountPropagation: 'HostToContainer' },
      ],
    },
    volumes: [
      hostFolder('node', nodeFolder(name)),
      hostFolder('run', dirname(holderSocket(name))),
      { name: 'sys', hostPath: { path: '/sys', type: 'Directory' } },
    ],
  });
}
