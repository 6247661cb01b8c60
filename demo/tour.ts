import { HearthError } from '@hearth/common';
import type { Dataset, Entry, WarmJob } from '@hearth/common/generated/hearth/v1/control.ts';
import type { AgentClient } from '../cli/src/client/agent_client.ts';
import { formatBytes, formatCount } from '../cli/src/format/quantity.ts';
import type { Terminal } from '../cli/src/terminal.ts';
import type { Cluster } from './cluster.ts';
import { mustHearth, StepFailed } from './hearth.ts';
import type { Model } from './model.ts';
import { missingForMounts } from './privileges.ts';
import { printReport, printTotals, sourcesText } from './report.ts';
import type { AgentPaths, RunDirectory } from './run_directory.ts';
import { type Truth, type Verified, verifyEngine, verifyMount } from './verification.ts';

export interface Stage {
  directory: RunDirectory;
  cluster: Cluster;
  model: Model;
  terminal: Terminal;
}

/** How each agent mounts: the view when all is here, FUSE all the same, FUSE with nothing warmed before. */
const dataPaths: Record<string, string> = { a: 'auto', b: 'fuse', c: 'fuse' };
/** Agent c is not warmed: what it reads comes from the others. */
const warmed = ['a', 'b'];

const taken = new HearthError('AlreadyExists', '').exitCode;

/** Adds, warms, mounts, lists and verifies. True when every byte on every node is the origin's. */
export async function tour(stage: Stage): Promise<boolean> {
  const { directory, cluster, model, terminal } = stage;
  const { interrupt } = terminal;
  const [first] = directory.agents;
  if (first === undefined) throw new HearthError('Internal', 'there is no agent');
  const clients = new Map<AgentPaths, AgentClient>();
  for (const agent of directory.agents) clients.set(agent, await cluster.connect(agent));
  try {
    const ask = (words: string[]) => mustHearth(first.socket, words, interrupt);
    await add(first, model, interrupt);
    const client = clients.get(first) as AgentClient;
    const dataset = await client.call('getDataset', { name: model.name });
    await sayStart(clients, dataset);
    await ask(['warm', model.name, '--node', warmed.join(',')]);
    await sayWhereWarmCameFrom(client, dataset);
    const missing = missingForMounts();
    for (const { what, remedy } of missing) console.log(`\nNo mounts: ${what} is missing. To get it: ${remedy}.`);
    if (missing.length === 0) await mountAll(stage);
    else console.log('Files are read through the engine instead.');
    await ask(['ls', model.name, '-r', '-l']);
    const results = await verifyAll(stage, clients, dataset, missing.length === 0);
    return conclude(results, terminal);
  } finally {
    for (const client of clients.values()) client.close();
  }
}

/** A former run may have registered another source by this name; what is cached of it stays. */
async function add(agent: AgentPaths, model: Model, interrupt: AbortSignal): Promise<void> {
  const words = ['dataset', 'add', model.name, ...sourceWords(model.source), '--allow-private'];
  try {
    await mustHearth(agent.socket, words, interrupt);
  } catch (error) {
    if (!(error instanceof StepFailed) || error.exit !== taken) throw error;
    await mustHearth(agent.socket, ['dataset', 'rm', model.name], interrupt);
    await mustHearth(agent.socket, words, interrupt);
  }
}

/** Several URLs are several words. */
function sourceWords(source: string): string[] {
  return /^https?:\/\//i.test(source) ? source.trim().split(/\s+/) : [source];
}

/** Asks every agent itself: what they report to one another is as old as their last report. */
async function sayStart(clients: Map<AgentPaths, AgentClient>, dataset: Dataset): Promise<void> {
  const held: { name: string; bytes: bigint }[] = [];
  for (const [{ name }, client] of clients) {
    let bytes = 0n;
    for (const file of await filesOf(client, dataset.name)) bytes += file.residentBytes;
    held.push({ name, bytes });
  }
  if (dataset.bytes > 0n && held.every(({ bytes }) => bytes === dataset.bytes)) {
    console.log(`Warm start: the caches of all three agents hold all ${formatBytes(dataset.bytes)} of a former run.`);
  } else if (held.some(({ bytes }) => bytes > 0n)) {
    const amounts = held.map(({ name, bytes }) => `${name} ${formatBytes(bytes)}`).join(', ');
    console.log(`Partly warm start, from a former run: ${amounts}.`);
  } else {
    console.log('Cold start: no cache holds any of it.');
  }
}

/** The job just ended, node by node; a warm start moves nothing. */
async function sayWhereWarmCameFrom(client: AgentClient, dataset: Dataset): Promise<void> {
  const { jobs } = await client.call('listWarmJobs', {});
  const own = jobs.filter((job) => job.dataset === dataset.name);
  const job = own.reduce((latest, one) => (one.createdAt >= latest.createdAt ? one : latest), own[0] as WarmJob);
  for (const node of job.nodes) {
    const { originBytes, peerBytes, bytesTotal } = node;
    const localBytes = bytesTotal - originBytes - peerBytes;
    console.log(
      `Agent ${node.node} has ${formatBytes(bytesTotal)}: ${sourcesText({ originBytes, peerBytes, localBytes })}`,
    );
  }
  const read = job.nodes.reduce((sum, node) => sum + node.originBytes, 0n);
  console.log(
    `Read from the origin: ${formatBytes(read)} of ${formatBytes(dataset.bytes)} for ${job.nodes.length} agents.`,
  );
}

async function mountAll({ directory, model, terminal }: Stage): Promise<void> {
  for (const agent of directory.agents) {
    const words = ['mount', model.name, agent.mount, '--data-path', dataPaths[agent.name] ?? 'auto'];
    await mustHearth(agent.socket, words, terminal.interrupt);
  }
}

async function verifyAll(
  stage: Stage,
  clients: Map<AgentPaths, AgentClient>,
  dataset: Dataset,
  mounted: boolean,
): Promise<Verified[]> {
  const { terminal, cluster } = stage;
  const results: Verified[] = [];
  const take = (file: Verified) => {
    terminal.interrupt.throwIfAborted();
    results.push(file);
    if (file.problem !== '') console.log(`MISMATCH on agent ${file.node}: ${file.path} ${file.problem}`);
  };
  const directory = dataset.source?.kind?.$case === 'directory' ? dataset.source.kind.value.path : undefined;
  const digests = new Map<string, string>();
  console.log(`\nComparing every file on every agent with ${directory ?? 'the origin, which is read again'}.`);
  if (!mounted || directory === undefined) {
    for (const [agent, client] of clients) {
      for await (const file of verifyEngine(client, agent.name, dataset.name, digests)) {
        if (agent.name === 'a') digests.set(file.path, file.sha256);
        if (!mounted || file.problem !== '') take(file);
      }
      if (mounted) break;
    }
  }
  if (!mounted) return results;
  const truth: Truth =
    directory === undefined ? { kind: 'digests', sha256: digests } : { kind: 'directory', root: directory };
  for (const [agent, client] of clients) {
    const node = { node: agent.name, mount: agent.mount, client, health: cluster.healthOf(agent) };
    const files = await filesOf(client, dataset.name);
    for await (const file of verifyMount(node, files, truth, terminal.interrupt)) take(file);
  }
  return results;
}

async function filesOf(client: AgentClient, dataset: string): Promise<Entry[]> {
  const files: Entry[] = [];
  for await (const entry of client.stream('listEntries', { dataset, path: '', recursive: true })) {
    if (entry.kind === 'file') files.push(entry);
  }
  return files;
}

function conclude(results: Verified[], terminal: Terminal): boolean {
  printReport(results, terminal);
  printTotals(results);
  const bad = results.filter((file) => file.problem !== '');
  const bytes = results.reduce((sum, file) => sum + file.size, 0n);
  const count = `${formatCount(results.length, 'file')} of ${formatBytes(bytes)} on three agents`;
  if (results.length === 0) console.log('\nThe dataset has no files; there was nothing to verify.');
  else if (bad.length === 0) console.log(`\nVerified: ${count}, every byte is the origin's.`);
  else console.log(`\nFAILED: ${bad.length} of ${count} are not the origin's.`);
  return bad.length === 0;
}
