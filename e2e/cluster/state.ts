import { existsSync, mkdirSync, readdirSync, readFileSync, renameSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { mountPointsBelow, must, run } from '@hearth/common/testing';
import { lock } from '../../scripts/tools/lock.ts';
import { hierarchies, removeControlGroup } from './machine/cgroups.ts';
import { Machine } from './machine/machine.ts';
import { deviceName, type Family, maximumClusters } from './network.ts';
import { identify, isAlive, type ProcessIdentity } from './process_identity.ts';

/** The record of a cluster, written before anything of the cluster is made, so that all of it can be removed. */
export interface ClusterRecord {
  name: string;
  /** See Network. */
  index: number;
  families: readonly Family[];
  nodes: number;
  /** The cluster is for this process alone and is rubbish once that has ended; a cluster for people has none. */
  owner?: ProcessIdentity;
}

/** All clusters of this machine. Not below /var/lib, /var/cache, /var/log or /run, which the nodes have of their own. */
export const clustersFolder = process.env.HEARTH_CLUSTERS || '/var/tmp/hearth-clusters';

export const folderOf = (name: string): string => join(clustersFolder, name);
export const machinesFolder = (name: string): string => join(folderOf(name), 'machines');
/** Dots keep the groups of clusters apart whose names begin alike. */
export const controlGroupOf = (name: string, machine: string): string => `hearth.${name}.${machine}`;

export function readRecord(name: string): ClusterRecord | undefined {
  const path = join(folderOf(name), 'cluster.json');
  return existsSync(path) ? (JSON.parse(readFileSync(path, 'utf8')) as ClusterRecord) : undefined;
}

export function clusterNames(): string[] {
  if (!existsSync(clustersFolder)) return [];
  return readdirSync(clustersFolder, { withFileTypes: true })
    .filter((entry) => entry.isDirectory())
    .map((entry) => entry.name);
}

/** Reserves a name and a range of addresses. */
export async function reserve(
  name: string,
  nodes: number,
  owned: boolean,
  families: readonly Family[] = ['IPv4'],
): Promise<ClusterRecord> {
  if (!/^[a-z0-9]([a-z0-9-]{0,30}[a-z0-9])?$/.test(name)) throw new Error(`${name} cannot be the name of a cluster`);
  mkdirSync(clustersFolder, { recursive: true });
  await using _ = await lock(join(clustersFolder, '.lock'));
  const used = new Set(clusterNames().map((other) => readRecord(other)?.index));
  if (readRecord(name)) throw new Error(`there is a cluster ${name} already; \`make cluster-down\` removes it`);
  let index = 0;
  while (used.has(index) || existsSync(`/sys/class/net/${deviceName(index)}`)) index++;
  if (index >= maximumClusters) throw new Error(`there are ${maximumClusters} clusters already`);
  const owner = owned ? identify(process.pid) : undefined;
  const record = { name, index, families, nodes, ...(owner ? { owner } : {}) };
  mkdirSync(join(folderOf(name), 'logs'), { recursive: true });
  writeFileSync(join(folderOf(name), 'cluster.json'), JSON.stringify(record));
  return record;
}

/** Writes down how many nodes a cluster has now. */
export function recordNodes(record: ClusterRecord, nodes: number): void {
  record.nodes = nodes;
  const path = join(folderOf(record.name), 'cluster.json');
  writeFileSync(`${path}.new`, JSON.stringify(record));
  renameSync(`${path}.new`, path);
}

/** True when the process that made the cluster has ended without removing the cluster, or while making it. */
export function isOrphan(name: string): boolean {
  const record = readRecord(name);
  return record === undefined || (record.owner !== undefined && !isAlive(record.owner));
}

/** Removes all that a cluster consists of, however far it came. Does nothing when there is none of that name. */
export async function remove(name: string): Promise<void> {
  const folder = folderOf(name);
  if (!existsSync(folder)) return;
  const machines = machinesFolder(name);
  if (existsSync(machines)) {
    await Promise.all(readdirSync(machines).map((machine) => Machine.open(join(machines, machine))?.stop()));
  }
  await Promise.all(controlGroupsOf(name).map(removeControlGroup));
  // Normally it went with the namespace at its other end.
  const record = readRecord(name);
  const device = record && deviceName(record.index);
  if (device && existsSync(`/sys/class/net/${device}`)) await run('ip', ['link', 'delete', device]);
  // Nothing is mounted below in the host's namespace; if it were, removing the folder would destroy what it shows.
  for (const mount of mountPointsBelow(folder)) await must('umount', '--no-canonicalize', mount);
  rmSync(folder, { recursive: true, force: true });
}

/** Removes the clusters of processes that have ended. Returns their names. */
export async function removeOrphans(): Promise<string[]> {
  const orphans = await findOrphans();
  for (const name of orphans) await remove(name);
  return orphans;
}

async function findOrphans(): Promise<string[]> {
  mkdirSync(clustersFolder, { recursive: true });
  // A cluster that is being reserved has no record yet.
  await using _ = await lock(join(clustersFolder, '.lock'));
  return clusterNames().filter(isOrphan);
}

function controlGroupsOf(name: string): string[] {
  const found = hierarchies().flatMap((hierarchy) => readdirSync(hierarchy));
  return [...new Set(found.filter((group) => group.startsWith(controlGroupOf(name, ''))))];
}
