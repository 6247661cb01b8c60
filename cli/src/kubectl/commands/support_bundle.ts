import { createWriteStream } from 'node:fs';
import { resolve } from 'node:path';
import { pipeline } from 'node:stream/promises';
import { createGzip } from 'node:zlib';
import { HearthError } from '@hearth/common';
import { kinds, type ResourceType } from '@hearth/common/kubernetes';
import { Command } from 'commander';
import { pack } from 'tar-stream';
import { formatCount } from '../../format/quantity.ts';
import { type ActionContext, examples } from '../../output.ts';
import { metricsText } from '../agent_metrics.ts';
import { agentPods } from '../agent_pods.ts';
import { actOnCluster, type ClusterSession } from '../cluster_session.ts';
import { examine } from './doctor.ts';

const logLines = 5_000;

/** Kinds to collect: from the release's namespace, and Hearth's own kinds from all namespaces. Never Secrets. */
const ofRelease = [kinds.Pod, kinds.Deployment, kinds.DaemonSet, kinds.StatefulSet, kinds.CoreEvent] as const;
const ofHearth = [kinds.StorageCluster, kinds.NodeCache, kinds.Dataset, kinds.CachePreload] as const;

/** A file of the bundle, and the function that fetches its text. */
interface Item {
  name: string;
  text: () => Promise<string>;
}

export function supportBundleCommand(context: ActionContext, version: string): Command {
  return new Command('support-bundle')
    .description(
      'Collect objects, events, logs, metrics and the findings of doctor in one archive for support.\n\n' +
        'The archive contains no Secrets, no values of environment variables and no annotations of kubectl. Names of nodes, ' +
        'Datasets and their origins are in it: review it before you send it.',
    )
    .option('-o, --output <file>', 'archive to write (default: hearth-support-TIME.tar.gz here)')
    .addHelpText('after', examples(context, 'support-bundle', 'support-bundle -o /tmp/hearth.tar.gz'))
    .action(
      actOnCluster(context, async (session: ClusterSession, options: { output?: string }) => {
        const { terminal } = session;
        const time = terminal.clock.date().toISOString().replace(/[:.]/g, '-').slice(0, 19);
        const path = resolve(terminal.directory, options.output ?? `hearth-support-${time}.tar.gz`);
        const missing = await write(session, version, path);
        if (session.json) session.printJson({ file: path, missing });
        else {
          session.print(`Wrote ${path}`);
          for (const one of missing) session.note(`Not in it: ${one}`);
        }
        return undefined;
      }),
    );
}

/** Returns sentences about missing files; the bundle lists them in `missing.txt`. */
async function write(session: ClusterSession, version: string, path: string): Promise<string[]> {
  const archive = pack();
  const written = pipeline(archive, createGzip(), createWriteStream(path, { mode: 0o600 })).catch((thrown: Error) => {
    throw new HearthError('IoError', `${path} cannot be written: ${thrown.message}`, { cause: thrown });
  });
  const mtime = session.terminal.clock.date();
  const missing: string[] = [];
  const add = (name: string, text: string) => archive.entry({ name: `hearth-support/${name}`, mtime }, text);
  const collect = async (items: Item[]) => {
    await Promise.all(
      items.map(async ({ name, text }) => {
        try {
          add(name, await text());
        } catch (thrown) {
          if (session.terminal.interrupt.aborted) throw thrown;
          missing.push(`${name}: ${HearthError.from(thrown).message}`);
        }
      }),
    );
  };
  const { api } = await session.cluster();
  add('version.txt', `kubectl hearth ${version}\n`);
  await collect([
    { name: 'kubernetes-version.json', text: () => api.text('get its version', '/version', session.signal()) },
    ...([...ofRelease, ...ofHearth] as ResourceType[]).map((type) => objectsItem(session, type)),
    { name: 'doctor.json', text: async () => pretty((await examine(session)).findings) },
  ]);
  await collect([...(await logItems(session, missing)), ...(await metricItems(session, missing))]);
  if (missing.length > 0) add('missing.txt', `${missing.join('\n')}\n`);
  archive.finalize();
  await written;
  if (!session.json) session.note(`${formatCount(missing.length, 'file')} could not be collected.`);
  return missing;
}

function objectsItem(session: ClusterSession, type: ResourceType): Item {
  const isOfRelease = (ofRelease as readonly unknown[]).includes(type);
  const options = isOfRelease ? { namespace: session.releaseNamespace } : {};
  return {
    name: `objects/${type.plural}.json`,
    text: async () => {
      const { api } = await session.cluster();
      const { items } = await api.list(type, options, session.signal());
      return pretty(items.map(withoutSecrets));
    },
  };
}

/** Values of environment variables may be secrets, and so may kubectl's annotation with the applied object. */
function withoutSecrets(object: unknown): unknown {
  return JSON.parse(JSON.stringify(object), (key, value) => {
    if (key === 'managedFields' || key === 'kubectl.kubernetes.io/last-applied-configuration') return undefined;
    if (key !== 'env' || !Array.isArray(value)) return value;
    return value.map((one) => ('value' in one ? { ...one, value: '(left out)' } : one));
  });
}

/** The logs of every container of the release, including its previous instance. */
async function logItems(session: ClusterSession, missing: string[]): Promise<Item[]> {
  const { api } = await session.cluster();
  const namespace = session.releaseNamespace;
  const pods = await api.list(kinds.Pod, { namespace }, session.signal()).catch((thrown: unknown) => {
    missing.push(`logs: ${HearthError.from(thrown).message}`);
    return { items: [] };
  });
  return pods.items.flatMap(({ metadata, status }) =>
    (status?.containerStatuses ?? []).flatMap(({ name, restartCount }) =>
      [false, ...(restartCount > 0 ? [true] : [])].map((previous) => {
        const path = `/api/v1/namespaces/${namespace}/pods/${metadata?.name}/log?container=${name}&tailLines=${logLines}&previous=${previous}`;
        const what = `get logs of ${metadata?.name}`;
        return {
          name: `logs/${metadata?.name}.${name}${previous ? '.previous' : ''}.log`,
          text: () => api.text(what, path, session.signal()),
        };
      }),
    ),
  );
}

async function metricItems(session: ClusterSession, missing: string[]): Promise<Item[]> {
  const pods = await agentPods(session).catch((thrown: unknown) => {
    missing.push(`metrics: ${HearthError.from(thrown).message}`);
    return [];
  });
  return pods.map((pod) => ({ name: `metrics/${pod.node}.txt`, text: () => metricsText(session, pod) }));
}

function pretty(value: unknown): string {
  return `${JSON.stringify(value, null, 2)}\n`;
}
