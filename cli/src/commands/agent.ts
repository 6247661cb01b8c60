import type { Setting } from '@hearth/node-agent/config';
import { Command, Option } from 'commander';
import { act, type CommandContext, collectWhole, examples, type Session } from '../session.ts';

interface Options {
  config?: string;
  printConfig?: boolean;
  [attribute: string]: unknown;
}

type Flags = Record<string, string | string[] | boolean | undefined>;

/** `hearth agent`: runs the node's agent in the foreground. The configuration schema defines the flags. */
export function agentCommand(context: CommandContext): Command {
  const options = context.agentSettings.flatMap((setting) => flagOf(setting));
  const command = new Command('agent')
    .description(
      "Run this node's agent in the foreground until SIGTERM or Ctrl-C.\n\n" +
        'Each setting is a flag, a variable and a key of the configuration file, in this order of precedence. ' +
        'The cluster secret comes from a file or from HEARTH_SECRET, never from a flag.',
    )
    .option('--config <file>', 'configuration file (default: $HEARTH_CONFIG, else /etc/hearth/agent.yaml)')
    .option('--print-config', 'print the configuration in effect, without the secret, and exit')
    .addHelpText(
      'after',
      examples(
        context,
        'agent --config /etc/hearth/agent.yaml',
        'agent --store sqlite:/var/lib/hearth/store.sqlite --cache-directories /mnt/nvme0/hearth=80%',
        'agent --print-config',
      ),
    );
  for (const { option } of options) command.addOption(option);
  return command.action(
    act(context, async (session: Session, given: Options) => {
      const flags: Flags = {};
      for (const { flag, option } of options) flags[flag] = given[option.attributeName()] as Flags[string];
      await runConfigured(context, session, given, flags);
      return undefined;
    }),
  );
}

function flagOf(setting: Setting): { flag: string; option: Option }[] {
  const { flag } = setting;
  if (flag === undefined) return [];
  const value = { text: '<value>', list: '<values>', map: '<key=value>', switch: '[yes|no]' }[setting.form];
  const fallback = setting.default === undefined ? '' : ` (default: ${setting.default})`;
  const option = new Option(`--${flag} ${value}`, `${setting.description}${fallback}`);
  if (setting.form === 'list' || setting.form === 'map') option.argParser(collectWhole);
  return [{ flag, option }];
}

async function runConfigured(context: CommandContext, session: Session, given: Options, flags: Flags): Promise<void> {
  const { describeConfig, loadConfig } = await import('@hearth/node-agent/config');
  const { config, warnings } = await loadConfig({
    ...(given.config === undefined ? {} : { file: given.config }),
    environment: session.terminal.environment,
    flags,
  });
  for (const warning of warnings) session.note(`Warning: ${warning}`);
  if (given.printConfig === true) {
    session.print(describeConfig(config).trimEnd());
    return;
  }
  await context.runAgent(config, session.terminal.interrupt);
}
