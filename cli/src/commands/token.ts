import { parseDuration } from '@hearth/node-agent/quantity';
import type { CapabilityRight } from '@hearth/node-agent/token';
import { Command, InvalidArgumentError, Option } from 'commander';
import { act, type CommandContext, examples, type Session } from '../session.ts';

interface Options {
  config?: string;
  for: number;
  node: string;
  right: CapabilityRight[];
}

/** As agents have it, which forget revoked tokens of that age. */
const maxLifeMs = 30 * 24 * 60 * 60 * 1000;

/** `hearth token`: creates a capability for clients of libgd2fs on a machine that has the cluster secret. */
export function tokenCommand(context: CommandContext): Command {
  return new Command('token')
    .description(
      'Create a token for programs that read datasets, and read and write volumes, through libgd2fs.\n\n' +
        'This command signs the token with the cluster secret in the configuration of the agent. Write the token to a ' +
        'file that only the program can read, set HEARTH_TOKEN_FILE to its path, and renew it before it expires.',
    )
    .argument(
      '<dataset...>',
      'what the token grants: datasets, or "*" for all; volumes as volume:NAME, or "volume:*" for all',
    )
    .option('--for <time>', 'validity, at most 30d', parseLife, 60 * 60 * 1000)
    .option('--node <name>', 'only the agent of this node accepts the token (default: any agent)', '')
    .addOption(
      new Option('--right <rights...>', 'what it grants')
        .choices(['read', 'advise', 'advise-cluster', 'write', 'delete'])
        .default(['read']),
    )
    .option('--config <file>', 'configuration file of the agent (default: $HEARTH_CONFIG, else /etc/hearth/agent.yaml)')
    .addHelpText(
      'after',
      examples(
        context,
        'token llama-3 > /run/inference/token',
        'token --for 12h "*"',
        'token volume:kv --right read write',
      ),
    )
    .action(act(context, run));
}

async function run(session: Session, options: Options, datasets: string[]): Promise<undefined> {
  const { loadConfig } = await import('@hearth/node-agent/config');
  const { makeToken } = await import('@hearth/node-agent/token');
  const { config } = await loadConfig({
    ...(options.config === undefined ? {} : { file: options.config }),
    environment: session.terminal.environment,
    flags: {},
  });
  const expiresAt = session.terminal.clock.date().getTime() + options.for;
  const capability = { cluster: config.cluster, node: options.node, expiresAt, rights: options.right, datasets };
  const token = makeToken(capability, config.secret);
  if (session.json) session.printJson({ token, expiresAt: new Date(expiresAt).toISOString(), datasets });
  else session.print(token);
  return undefined;
}

function parseLife(text: string): number {
  const milliseconds = parseDuration(text);
  if (milliseconds === undefined || milliseconds < 1000 || milliseconds > maxLifeMs)
    throw new InvalidArgumentError('It must be a time from 1s to 30d, such as 90s, 15m or 12h.');
  return milliseconds;
}
