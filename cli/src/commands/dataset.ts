import { HearthError } from '@hearth/common';
import type { AddDatasetProgress, Dataset, Source } from '@hearth/common/generated/hearth/v1/control.ts';
import { Command, Option } from 'commander';
import { printable, toneOf } from '../format/paint.ts';
import { formatBytes, formatCount, formatPercent, fractionOf } from '../format/quantity.ts';
import { cut } from '../format/table.ts';
import { LiveRegion } from '../live_region.ts';
import { act, type CommandContext, collectWhole, examples, type Session } from '../session.ts';
import { readSource, type SourceOptions } from '../source_options.ts';
import { datasetView, mirrorTexts, residencyText, sourceText } from '../view.ts';

export function datasetCommand(context: CommandContext): Command {
  return new Command('dataset')
    .description('Add, list and remove datasets: named origins whose bytes are cached.')
    .addCommand(addCommand(context))
    .addCommand(listCommand(context))
    .addCommand(showCommand(context))
    .addCommand(removeCommand(context));
}

interface AddOptions extends SourceOptions {
  include?: string[];
  exclude?: string[];
}

function addCommand(context: CommandContext): Command {
  return new Command('add')
    .description(
      'List an origin and register its current state under a name. Adding the name again registers the new state.\n\n' +
        'A source is a directory, s3://bucket/prefix, https:// URLs (one that ends in "/" is an index page), ' +
        "hf://org/model@revision or volume://name/path. Credentials come from the agent's environment, never from the command line.",
    )
    .argument('<name>', 'name of the dataset')
    .argument('<source...>', 'origin of the bytes; several only for URLs')
    .option(
      '--mirror <source>',
      'mirror with the same files, written like <source> (options of S3 and hubs after "?"); may be repeated',
      collectWhole,
    )
    .option('--include <glob>', 'include only matching files; may be repeated', collectWhole)
    .option('--exclude <glob>', 'exclude matching files, even if included; may be repeated', collectWhole)
    .option('--endpoint <url>', 'S3 endpoint, or hub other than huggingface.co')
    .option('--region <name>', 'S3 region')
    .option('--path-style', 'put the bucket into the path of S3 URLs (default with --endpoint)')
    .option(
      '--sha256 <file=hex>',
      'digest of a file, for servers without strong validators; may be repeated',
      collectWhole,
    )
    .option('--allow-private', 'accept origins in loopback, link-local and private address ranges')
    .addOption(
      new Option('--unusable-names <action>', 'unusable file names: fail the dataset, or skip the files')
        .choices(['fail', 'skip'])
        .default('fail'),
    )
    .option(
      '--allow-weak-validators',
      'accept files without digest and strong validator, whose changes Hearth may miss',
    )
    .option('--origin-wait <time>', 'how long each read waits for an origin that is away (default: 5m)')
    .addHelpText(
      'after',
      examples(
        context,
        'dataset add llama /models/llama --exclude "*.bin"',
        'dataset add llama s3://models/llama --endpoint https://s3.example.com --region eu-west-1',
        'dataset add minilm hf://sentence-transformers/all-MiniLM-L6-v2@main',
        'dataset add weights https://example.com/model.safetensors',
        'dataset add llama s3://models/llama --mirror "s3://copies/llama?endpoint=https://s3.example.com"',
      ),
    )
    .action(
      act(context, async (session: Session, options: AddOptions, name: string, texts: string[]) => {
        const source = await readSource(texts, options, session.terminal.directory);
        await addDataset(session, name, source, options);
        return undefined;
      }),
    );
}

async function addDataset(session: Session, name: string, source: Source, options: AddOptions): Promise<void> {
  const region = new LiveRegion(session.terminal);
  const request = {
    name,
    source,
    include: options.include ?? [],
    exclude: options.exclude ?? [],
    credentials: undefined,
  };
  const last = await session.withAgent(async (agent) => {
    let newest: AddDatasetProgress | undefined;
    for await (const progress of agent.stream('addDataset', request)) {
      newest = progress;
      if (progress.dataset !== undefined) continue;
      const { filesListed, bytesListed } = progress;
      if (session.json) session.printJson({ filesListed, bytesListed });
      else {
        const line = `Listing ${printable(name)}: ${formatCount(filesListed, 'file')}, ${formatBytes(bytesListed)}`;
        region.draw([cut(line, session.terminal.columns())]);
      }
    }
    return newest;
  });
  region.clear();
  const dataset = last?.dataset;
  if (last === undefined || dataset === undefined) {
    throw new HearthError('ProtocolError', 'the agent ended the listing without a result; see its log');
  }
  refuseLostMirrors(source, dataset);
  if (session.json) {
    session.printJson({ dataset: await datasetView(dataset), unchanged: last.unchanged });
    return;
  }
  const what = last.unchanged ? 'Unchanged' : 'Added';
  session.print(
    `${what} ${printable(dataset.name)}: ${formatCount(dataset.files, 'file')}, ${formatBytes(dataset.bytes)}${
      dataset.revision === '' ? '' : `, revision ${printable(dataset.revision)}`
    }`,
  );
  for (const warning of dataset.warnings) session.note(`Warning: ${printable(warning)}`);
}

/** Agents older than mirrors silently ignore the field. */
function refuseLostMirrors(asked: Source, { name, source }: Dataset): void {
  if ((asked.mirrors?.sources ?? []).length === (source?.mirrors?.sources ?? []).length) return;
  throw new HearthError(
    'Unsupported',
    `dataset ${name} was added without its mirrors, because the release of its agent does not support mirrors; upgrade the agents and add the dataset again`,
  );
}

function listCommand(context: CommandContext): Command {
  return new Command('ls')
    .alias('list')
    .description('List the datasets of the cluster.')
    .addHelpText('after', examples(context, 'dataset ls', 'dataset ls --json'))
    .action(
      act(context, async (session: Session) => {
        const { datasets } = await session.withAgent((agent) => agent.call('listDatasets', {}));
        if (session.json) session.printJson({ datasets: await Promise.all(datasets.map(datasetView)) });
        else if (datasets.length === 0) session.note('There are no datasets. Add one with `dataset add`.');
        else await printDatasets(session, datasets);
        return undefined;
      }),
    );
}

/** The table of `dataset ls` and `status`. */
export async function printDatasets(session: Session, datasets: Dataset[]): Promise<void> {
  const rows = await Promise.all(datasets.map(async (dataset) => ({ dataset, source: await sourceText(dataset) })));
  session.printTable(
    [
      { title: 'DATASET', value: (row) => row.dataset.name },
      { title: 'STATE', value: (row) => row.dataset.state, tone: (row) => toneOf(row.dataset.state) },
      { title: 'FILES', value: (row) => String(row.dataset.files), align: 'right' },
      { title: 'SIZE', value: (row) => formatBytes(row.dataset.bytes), align: 'right' },
      { title: 'RESIDENT', value: (row) => residencyText(row.dataset) },
      { title: 'REVISION', value: (row) => row.dataset.revision, flexible: true, omitEmpty: true, dispensable: 2 },
      { title: 'SOURCE', value: (row) => row.source, flexible: true, dispensable: 1 },
    ],
    rows,
  );
}

function showCommand(context: CommandContext): Command {
  return new Command('show')
    .description('Show one dataset: revision, warnings, and location of its bytes.')
    .argument('<dataset>', 'name of the dataset')
    .addHelpText('after', examples(context, 'dataset show llama'))
    .action(
      act(context, async (session: Session, _options: object, name: string) => {
        const dataset = await session.withAgent((agent) => agent.call('getDataset', { name }));
        if (session.json) session.printJson(await datasetView(dataset));
        else await showDataset(session, dataset);
        return undefined;
      }),
    );
}

async function showDataset(session: Session, dataset: Dataset): Promise<void> {
  const fields: [string, string][] = [
    ['Name', dataset.name],
    ['State', dataset.message === '' ? dataset.state : `${dataset.state}: ${dataset.message}`],
    ['Source', await sourceText(dataset)],
    ...(await mirrorTexts(dataset)).map((text): [string, string] => ['Mirror', text]),
    ['Revision', dataset.revision],
    ['Manifest', dataset.manifest],
    ['Files', String(dataset.files)],
    ['Size', `${formatBytes(dataset.bytes)} (${dataset.bytes} bytes)`],
    ['Created', dataset.createdAt],
    ...dataset.warnings.map((warning): [string, string] => ['Warning', warning]),
    ...dataset.residency.flatMap(({ node, sourcesAside }) =>
      sourcesAside.map((aside): [string, string] => ['Aside', `on ${node}: ${aside}`]),
    ),
  ];
  session.print(
    ...fields.filter(([, value]) => value !== '').map(([key, value]) => `${key.padEnd(9)} ${printable(value)}`),
  );
  if (dataset.residency.length === 0) return;
  session.print('');
  session.printTable(
    [
      { title: 'NODE', value: (row) => row.node },
      { title: 'RESIDENT', value: (row) => formatBytes(row.residentBytes), align: 'right' },
      {
        title: 'PART',
        value: (row) => formatPercent(fractionOf(row.residentBytes, dataset.bytes)).trim(),
        align: 'right',
      },
      { title: 'FILES', value: (row) => `${row.completeFiles}/${dataset.files}`, align: 'right' },
      {
        title: 'MEMORY',
        value: (row) => (row.memoryBytes === 0n ? '' : formatBytes(row.memoryBytes)),
        align: 'right',
        omitEmpty: true,
      },
      { title: 'PINNED', value: (row) => (row.pinned ? 'yes' : 'no') },
      { title: 'DATA PATH', value: (row) => row.dataPath },
      { title: 'WHY NOT BETTER', value: (row) => row.reason, flexible: true, omitEmpty: true },
    ],
    dataset.residency,
  );
}

function removeCommand(context: CommandContext): Command {
  return new Command('rm')
    .alias('remove')
    .description('Remove a dataset. Caches keep its bytes until eviction.')
    .argument('<dataset>', 'name of the dataset')
    .option('--evict', 'also evict its bytes from all caches now')
    .addHelpText('after', examples(context, 'dataset rm llama', 'dataset rm llama --evict'))
    .action(
      act(context, async (session: Session, options: { evict?: boolean }, name: string) => {
        const evict = options.evict === true;
        await session.withAgent((agent) => agent.call('removeDataset', { name, evict, nodes: [] }));
        if (session.json) session.printJson({ name, evicted: evict });
        else session.print(`Removed ${printable(name)}${evict ? ' and its bytes from all caches' : ''}`);
        return undefined;
      }),
    );
}
