import { existsSync, readdirSync, readFileSync } from 'node:fs';
import { must } from '@hearth/common/testing';
import { hierarchies } from '../machine/cgroups.ts';
import { Network } from '../network.ts';
import { type ClusterRecord, controlGroupOf, folderOf } from '../state.ts';

/** Traces that one cluster could leave on the host, by kind; other clusters may run beside it. */
export async function traces({ name, index, families }: ClusterRecord): Promise<Record<string, string[]>> {
  const folder = folderOf(name);
  const network = new Network(index, families);
  const lines = (text: string) => text.split('\n').filter((line) => line !== '');
  const ranges = [network.nodeRanges, network.podRanges, network.serviceRanges].flat();
  return {
    processes: lines(await must('ps', '-e', '-o', 'args=')).filter(
      (line) => line.includes(`${folder}/`) || line.endsWith(`/guard.ts ${name}`),
    ),
    mounts: lines(readFileSync('/proc/self/mountinfo', 'utf8')).filter((line) => line.includes(`${folder}/`)),
    disks: lines(await must('losetup', '--list', '--noheadings', '--output', 'BACK-FILE')).filter((line) =>
      line.includes(`${folder}/`),
    ),
    groups: hierarchies().flatMap((hierarchy) =>
      readdirSync(hierarchy).filter((group) => group.startsWith(controlGroupOf(name, ''))),
    ),
    devices: readdirSync('/sys/class/net').filter((device) => device === network.device),
    routes: lines((await must('ip', '-4', 'route')) + (await must('ip', '-6', 'route'))).filter((line) =>
      ranges.some((range) => line.startsWith(range)),
    ),
    folders: [folder].filter(existsSync),
  };
}

/** Traces that the programs would leave on the host if they were not on machines of their own. */
export async function hostTraces(): Promise<Record<string, string[]>> {
  const folders = ['/var/lib/kubelet', '/var/lib/containerd', '/var/lib/cni', '/run/containerd', '/opt/containerd'];
  return {
    tables: (await must('nft', 'list', 'tables')).split('\n').filter((line) => line.includes('kube')),
    namespaces: (await must('ip', 'netns', 'list')).split('\n').filter((line) => line !== ''),
    groups: hierarchies().flatMap((hierarchy) => readdirSync(hierarchy).filter((group) => group.startsWith('kube'))),
    folders: [...folders, '/var/log/pods', '/etc/cni/net.d', '/usr/libexec/kubernetes'].filter(existsSync),
    forwarding: [readFileSync('/proc/sys/net/ipv4/ip_forward', 'utf8').trim()],
  };
}
