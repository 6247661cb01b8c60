import { readFileSync } from 'node:fs';
import { Command } from 'commander';
import { act, type CommandContext, examples, type Session } from '../session.ts';

/** Version of this program, from its package.json. */
export function ownVersion(): string {
  const text = readFileSync(new URL('../../package.json', import.meta.url), 'utf8');
  return (JSON.parse(text) as { version: string }).version;
}

export function versionCommand(context: CommandContext): Command {
  return new Command('version')
    .description('Show the versions of this program and of Node.js.')
    .addHelpText('after', examples(context, 'version', 'version --json'))
    .action(
      act(context, async (session: Session) => {
        const versions = { hearth: ownVersion(), node: process.versions.node };
        if (session.json) session.printJson(versions);
        else session.print(`hearth ${versions.hearth} (Node.js ${versions.node})`);
        return undefined;
      }),
    );
}
