import { HearthError, sleep } from '@hearth/common';
import { kinds } from '@hearth/common/kubernetes';
import { apiGroup, apiVersion, type CachePreload } from '@hearth/common/resources';
import { Command } from 'commander';
import { printable } from '../../format/paint.ts';
import { renderBar } from '../../format/progress.ts';
import { formatBytes, formatRate, formatSeconds } from '../../format/quantity.ts';
import { LiveRegion } from '../../live_region.ts';
import { type ActionContext, collect, examples, wholeNumber } from '../../output.ts';
import { actOnCluster, type ClusterSession } from '../cluster_session.ts';

interface Options {
  node?: string[];
  replicas?: number;
  pin?: true;
  detach?: true;
}

const pollMs = 1_000;
const barWidth = 24;

/** `kubectl hearth warm DATASET`: creates a CachePreload with the user's rights and follows it. */
export function warmCommand(context: ActionContext): Command {
  return new Command('warm')
    .description(
      'Fetch a Dataset onto nodes by a CachePreload, and follow it.\n\n' +
        'Without --pin the command deletes the CachePreload once everything is stored: the bytes stay until others need the room. ' +
        'Ctrl-C stops following; the preload continues.',
    )
    .argument('<dataset>', 'NAME, in the namespace of -n, or NAMESPACE/NAME')
    .option('--node <name>', 'target node; may be repeated (default: all nodes)', collect)
    .option('--replicas <number>', 'number of target nodes, chosen by the operator', wholeNumber(1, 10_000))
    .option('--pin', 'keep the bytes until the CachePreload is deleted')
    .option('--detach', 'do not follow the preload')
    .addHelpText('after', examples(context, 'warm llama -n team', 'warm team/llama --replicas 3 --pin --detach'))
    .action(actOnCluster(context, run));
}

async function run(session: ClusterSession, options: Options, text: string): Promise<number | undefined> {
  const { api, namespace: own } = await session.cluster();
  const parts = text.split('/');
  const dataset = parts.pop() ?? '';
  const namespace = parts.pop() ?? session.namespace ?? own;
  if (dataset === '' || namespace === '' || parts.length > 0) {
    throw new HearthError('InvalidArgument', `"${text}" is neither NAME nor NAMESPACE/NAME of a Dataset`);
  }
  if (options.node !== undefined && options.replicas !== undefined) {
    throw new HearthError('InvalidArgument', '--node and --replicas exclude each other; give one of them');
  }
  // For a mistyped name the operator would wait for the Dataset.
  if ((await api.get(kinds.Dataset, dataset, namespace, session.signal())) === undefined) {
    throw new HearthError('NotFound', `there is no Dataset ${namespace}/${dataset}; see kubectl get datasets -A`);
  }
  // The API server fills in defaults of the spec.
  const wanted = preloadOf(namespace, dataset, options, nameSuffix(session.terminal.clock.random()));
  const { metadata } = await api.create(kinds.CachePreload, wanted as unknown as CachePreload, session.signal());
  if (options.detach) {
    if (session.json) session.printJson({ namespace, name: metadata.name });
    else
      session.print(
        `CachePreload ${namespace}/${metadata.name} continues; kubectl delete cachepreload -n ${namespace} ${metadata.name} cancels it.`,
      );
    return undefined;
  }
  const code = await follow(session, namespace, metadata.name);
  if (code === 0 && !options.pin) await api.delete(kinds.CachePreload, metadata.name, namespace);
  return code;
}

function preloadOf(namespace: string, dataset: string, { node, replicas, pin }: Options, suffix: string) {
  const placement = node ? { nodeNames: node } : replicas ? { replicas } : { allNodes: true };
  return {
    apiVersion: `${apiGroup}/${apiVersion}`,
    kind: 'CachePreload',
    metadata: { namespace, name: `warm-${dataset.slice(0, 48)}-${suffix}` },
    spec: { datasets: [{ name: dataset }], placement, pin: pin === true },
  };
}

function nameSuffix(random: number): string {
  return Math.floor(random * 36 ** 5)
    .toString(36)
    .padStart(5, '0');
}

/** Follows until the preload is complete (0), has failed (14), or the user interrupts (130). */
async function follow(session: ClusterSession, namespace: string, name: string): Promise<number> {
  const { clock, interrupt, interactive } = session.terminal;
  const { api } = await session.cluster();
  const region = new LiveRegion(session.terminal);
  let printed = '';
  for (let look = 0; ; look++) {
    await sleep(clock, look === 0 ? 0 : pollMs, interrupt);
    if (interrupt.aborted) {
      region.end();
      session.note(
        `The CachePreload ${namespace}/${name} continues; kubectl delete cachepreload -n ${namespace} ${name} cancels it.`,
      );
      return 130;
    }
    const preload = await api.get(kinds.CachePreload, name, namespace, session.signal());
    if (preload === undefined) throw new HearthError('NotFound', `the CachePreload ${namespace}/${name} was deleted`);
    const line = lineOf(session, preload);
    if (session.json) printed = printChange(printed, JSON.stringify({ name, ...preload.status }), session);
    else if (interactive) region.draw([line]);
    else printed = printChange(printed, line, session);
    const phase = preload.status?.phase;
    if (phase !== 'Ready' && phase !== 'Failed') continue;
    region.end();
    if (phase === 'Ready') return 0;
    throw new HearthError(
      'Unavailable',
      `the preload failed: ${preload.status?.waitingFor ?? ''}; see kubectl describe cachepreload -n ${namespace} ${name}`,
    );
  }
}

function printChange(last: string, line: string, session: ClusterSession): string {
  if (line !== last) session.print(line);
  return line;
}

function lineOf(session: ClusterSession, { metadata, status }: CachePreload): string {
  const {
    percent = 0,
    bytesReady = 0,
    bytesTotal = 0,
    bytesPerSecond = 0,
    secondsLeft,
    waitingFor = '',
  } = status ?? {};
  const bar = session.terminal.interactive ? ` ${renderBar(percent / 100, barWidth, session.terminal.unicode)}` : '';
  const rate = bytesPerSecond > 0 ? `, ${formatRate(bytesPerSecond)}` : '';
  const left = secondsLeft === undefined ? '' : `, about ${formatSeconds(secondsLeft)} left`;
  const why = waitingFor === '' ? '' : `; waits for ${printable(waitingFor)}`;
  return `${printable(metadata.name)} ${status?.phase ?? 'Pending'}${bar} ${percent}%: ${formatBytes(bytesReady)} of ${formatBytes(bytesTotal)}${rate}${left}${why}`;
}
