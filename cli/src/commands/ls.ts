import type { Entry } from '@hearth/common/generated/hearth/v1/control.ts';
import { Command } from 'commander';
import { printable } from '../format/paint.ts';
import { formatBytes, formatPercent, fractionOf } from '../format/quantity.ts';
import { act, type CommandContext, examples, type Session } from '../session.ts';

/** Rows aligned together; a dataset may have millions of rows. */
const pageRows = 1000;

interface Options {
  recursive?: boolean;
  long?: boolean;
}

export function lsCommand(context: CommandContext): Command {
  return new Command('ls')
    .description('List the files of a dataset.')
    .argument('<dataset>', 'name of the dataset')
    .argument('[path]', 'a directory in it', '')
    .option('-r, --recursive', 'all files below')
    .option('-l, --long', 'show size, resident part and digest')
    .addHelpText('after', examples(context, 'ls llama', 'ls llama tokenizer -l', 'ls llama -r --json'))
    .action(act(context, run));
}

async function run(session: Session, options: Options, dataset: string, path: string): Promise<undefined> {
  const request = { dataset, path: path.replace(/^\/+|\/+$/g, ''), recursive: options.recursive === true };
  let page: Entry[] = [];
  await session.withAgent(async (agent) => {
    for await (const entry of agent.stream('listEntries', request)) {
      if (session.json) session.printJson(entry);
      else if (options.long !== true) session.print(nameOf(entry));
      else page.push(entry);
      if (page.length === pageRows) {
        printPage(session, page);
        page = [];
      }
    }
  });
  if (page.length > 0) printPage(session, page);
}

function nameOf(entry: Entry): string {
  switch (entry.kind) {
    case 'directory':
      return `${printable(entry.path)}/`;
    case 'symlink':
      return `${printable(entry.path)} -> ${printable(entry.symlinkTarget)}`;
    default:
      return printable(entry.path);
  }
}

function printPage(session: Session, entries: Entry[]): void {
  const ofFile = (text: (entry: Entry) => string) => (entry: Entry) => (entry.kind === 'file' ? text(entry) : '-');
  session.printTable(
    [
      { title: 'SIZE', value: ofFile((entry) => formatBytes(entry.size)), align: 'right' },
      {
        title: 'RESIDENT',
        value: ofFile((entry) => formatPercent(fractionOf(entry.residentBytes, entry.size)).trim()),
        align: 'right',
      },
      { title: 'DIGEST', value: ofFile((entry) => entry.sourceDigest.slice(0, 12) || '-') },
      { title: 'PATH', value: nameOf },
    ],
    entries,
  );
}
