import { existsSync, readdirSync, readFileSync } from 'node:fs';
import { hierarchies } from '../machine/cgroups.ts';
import { must } from '../machine/machine.ts';
import { clusterNames, clustersFolder } from '../state.ts';

/** What clusters could leave on the host, by kind. */
export async function traces(): Promise<Record<string, string[]>> {
  const all = (await must('ps', '-e', '-o', 'args=')).split('\n');
  return {
    processes: all.filter((line) => line.includes(`${clustersFolder}/`) || line.includes('/guard.ts')),
    mounts: readFileSync('/proc/self/mountinfo', 'utf8')
      .split('\n')
      .filter((line) => /hearth-clusters|kubelet/.test(line)),
    groups: hierarchies().flatMap((folder) => readdirSync(folder).filter((group) => group.startsWith('hearth.'))),
    devices: readdirSync('/sys/class/net').filter((device) => device.startsWith('hearth')),
    routes: (await must('ip', 'route')).split('\n').filter((line) => line.includes('10.250.')),
    tables: (await must('nft', 'list', 'tables')).split('\n').filter((line) => line.includes('kube')),
    namespaces: (await must('ip', 'netns', 'list')).split('\n').filter((line) => line !== ''),
    folders: [
      ...clusterNames(),
      ...[
        '/var/lib/kubelet',
        '/var/lib/containerd',
        '/opt/containerd',
        '/etc/cni/net.d',
        '/usr/libexec/kubernetes',
      ].filter(existsSync),
    ],
  };
}
