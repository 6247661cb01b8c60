import { dirname } from 'node:path/posix';
import type { DaemonSet } from '@hearth/common/kubernetes';
import { type NodeGroup, parseDuration } from '@hearth/common/resources';
import { holderSetName, holderSocket, nodeFolder } from '../names.ts';
import { arenaBytes, inMebibytes } from './agent_memory.ts';
import type { BuildInput, DesiredObject } from './desired_object.ts';
import { hostFolder, nodeDaemonSet, sharedMount } from './pod.ts';

const MiB = 1n << 20n;
const ownRequest = 16n * MiB;
/** Some kilobytes a mount. With the holder its mounts would end, so there is room for ten thousand of them. */
const ownLimit = 256n * MiB;

/** The arena of the agent and what the holder needs itself. The kernel counts huge pages apart from other memory. */
function resources(group: NodeGroup) {
  const arena = arenaBytes(group);
  const { hugePages } = group.engine;
  if (hugePages === undefined)
    return {
      requests: { cpu: '10m', memory: inMebibytes(ownRequest + arena) },
      limits: { memory: inMebibytes(ownLimit + arena) },
    };
  const pages = { [`hugepages-${hugePages}`]: inMebibytes(arena) };
  return {
    requests: { cpu: '10m', memory: inMebibytes(ownRequest), ...pages },
    limits: { memory: inMebibytes(ownLimit), ...pages },
  };
}

/**
 * The mount holders of a node group. Mounts end with their holder, so nothing but a person deletes its pods
 * (OnDelete), and nothing that changes often stands in the template. A surge with --take-over would not do in its place:
 * the kubelet starts the container that has handed over again, beside its successor, and it would take all back.
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
        ...['--arena-bytes', String(arenaBytes(group))],
      ],
      ...(extraEnv.length === 0 ? {} : { env: extraEnv }),
      // Reports only: a holder is never ended for not answering, as its mounts would end with it.
      readinessProbe: {
        exec: { command: ['hearth-holder', '--check', '--socket', holderSocket(name)] },
        periodSeconds: 10,
        timeoutSeconds: 5,
      },
      resources: resources(group),
      volumeMounts: [
        sharedMount('node', nodeFolder(name)),
        // Only so that the folder is there: a mount below the shared one would spread to the node, once more with
        // each new container.
        { name: 'run', mountPath: '/run/hearth' },
        // Where a connection of FUSE is aborted and its read-ahead is set; mounted there whenever fuse is loaded.
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
