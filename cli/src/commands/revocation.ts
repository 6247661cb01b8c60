import { readFile } from 'node:fs/promises';
import { HearthError } from '@hearth/common';
import { Command, Option } from 'commander';
import { printable } from '../format/paint.ts';
import { act, type CommandContext, examples, type Session } from '../session.ts';

interface Target {
  tokenFile?: string;
  pod?: string;
  namespace?: string;
}

/** `hearth revocation`: tokens of clients that all agents refuse. */
export function revocationCommand(context: CommandContext): Command {
  return new Command('revocation')
    .description('Revoke tokens of programs that read through libgd2fs, before they expire.')
    .addCommand(
      targeted('add', 'Revoke tokens: all agents refuse them and end the connections of their programs.')
        .addHelpText(
          'after',
          examples(
            context,
            'revocation add --token-file /run/inference/token',
            'revocation add --pod team/3f0c8a52-7d0e-4a8b-9c57-0d2f6a1b9e11',
            'revocation add --namespace team',
          ),
        )
        .action(act(context, change('revokeTokens', 'Revoked'))),
    )
    .addCommand(
      targeted('rm', 'Permit revoked tokens again.')
        .addHelpText('after', examples(context, 'revocation rm --namespace team'))
        .action(act(context, change('permitTokens', 'Permitted'))),
    )
    .addCommand(new Command('ls').description('List all revocations.').action(act(context, list)));
}

function targeted(name: string, description: string): Command {
  return new Command(name)
    .description(description)
    .addOption(new Option('--token-file <path>', 'file with one token').conflicts(['pod', 'namespace']))
    .addOption(new Option('--pod <namespace/uid>', 'all tokens of a pod').conflicts('namespace'))
    .option('--namespace <name>', 'all tokens of all pods of a namespace');
}

function change(call: 'revokeTokens' | 'permitTokens', done: string) {
  return async (session: Session, target: Target): Promise<undefined> => {
    const request = await requestOf(target);
    await session.withAgent((agent) => agent.call(call, request));
    if (session.json) session.printJson(request);
    else session.print(`${done} ${request.kind} ${printable(request.name)}`);
    return undefined;
  };
}

async function requestOf({ tokenFile, pod, namespace }: Target): Promise<{ kind: string; name: string }> {
  if (pod !== undefined) return { kind: 'pod', name: pod };
  if (namespace !== undefined) return { kind: 'namespace', name: namespace };
  if (tokenFile === undefined) {
    throw new HearthError('InvalidArgument', 'name the tokens by --token-file, --pod or --namespace');
  }
  const { tokenId } = await import('@hearth/node-agent/token');
  const text = await readFile(tokenFile, 'utf8').catch((thrown: Error) => {
    throw new HearthError('IoError', `cannot read the token (${thrown.message})`);
  });
  return { kind: 'token', name: tokenId(text) };
}

async function list(session: Session): Promise<undefined> {
  const { revocations } = await session.withAgent((agent) => agent.call('listRevocations', {}));
  if (session.json) session.printJson({ revocations });
  else {
    session.printTable(
      [
        { title: 'KIND', value: (row) => row.kind },
        { title: 'NAME', value: (row) => row.name, flexible: true },
        { title: 'REVOKED', value: (row) => row.revokedAt },
      ],
      revocations,
    );
  }
  return undefined;
}
