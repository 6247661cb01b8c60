import type { Argument, Command, Option } from 'commander';
import { firstLine } from '../format/wrap.ts';

/** Candidates for one position of the command line. */
export type Candidates =
  | { kind: 'none' }
  | { kind: 'files' }
  | { kind: 'choices'; values: readonly string[] }
  /** The agent supplies the names at completion time. */
  | { kind: 'dynamic'; subject: DynamicSubject };

export const dynamicSubjects = ['datasets', 'jobs', 'nodes', 'mounts'] as const;
export type DynamicSubject = (typeof dynamicSubjects)[number];

export interface CompletionOption {
  /** `--json`, `-l`. */
  names: string[];
  description: string;
  /** Absent for switches. */
  value?: Candidates;
  /** True when the value is optional. */
  optionalValue: boolean;
}

export interface CompletionCommand {
  /** Words after the program's name; empty for the program itself. */
  path: string[];
  description: string;
  subcommands: { name: string; description: string }[];
  options: CompletionOption[];
  arguments: Candidates[];
  /** True when the last argument may be repeated. */
  variadic: boolean;
}

/** Every visible command of the tree, with its own and inherited options. */
export function completionModel(program: Command): CompletionCommand[] {
  const found: CompletionCommand[] = [];
  const visit = (command: Command, path: string[], inherited: Option[]): void => {
    const help = command.createHelp();
    const own = help.visibleOptions(command);
    const children = help.visibleCommands(command).filter((child) => child.name() !== 'help');
    found.push({
      path,
      description: firstLine(command.description()),
      subcommands: children.map((child) => ({ name: child.name(), description: firstLine(child.description()) })),
      options: [...own, ...inherited].map(describeOption),
      arguments: command.registeredArguments.map(argumentCandidates),
      variadic: command.registeredArguments.at(-1)?.variadic === true,
    });
    for (const child of children)
      visit(child, [...path, child.name()], [...inherited, ...withoutHelp(command.options)]);
  };
  visit(program, [], []);
  return found;
}

function withoutHelp(options: readonly Option[]): Option[] {
  return options.filter((option) => option.long !== '--version' && option.long !== '--help' && !option.hidden);
}

function describeOption(option: Option): CompletionOption {
  const names = [option.long, option.short].filter((name) => name !== undefined && name !== null);
  const description = firstLine(option.description);
  if (!option.required && !option.optional) return { names, description, optionalValue: false };
  return { names, description, value: optionCandidates(option), optionalValue: option.optional };
}

function optionCandidates(option: Option): Candidates {
  if (option.argChoices !== undefined) return { kind: 'choices', values: option.argChoices };
  const placeholder = /[<[](.+)[>\]]/.exec(option.flags)?.[1] ?? '';
  if (option.long === '--node') return { kind: 'dynamic', subject: 'nodes' };
  return ['file', 'path', 'directory'].includes(placeholder) ? { kind: 'files' } : { kind: 'none' };
}

function argumentCandidates(argument: Argument): Candidates {
  if (argument.argChoices !== undefined) return { kind: 'choices', values: argument.argChoices };
  switch (argument.name()) {
    case 'dataset':
      return { kind: 'dynamic', subject: 'datasets' };
    case 'job':
      return { kind: 'dynamic', subject: 'jobs' };
    case 'mount-point':
      return { kind: 'dynamic', subject: 'mounts' };
    case 'directory':
    case 'source':
      return { kind: 'files' };
    default:
      return { kind: 'none' };
  }
}

/** Name of the completion function and file: letters, digits and underscores. */
export function identifier(program: string): string {
  return program.replace(/[^A-Za-z0-9]/g, '_');
}

/** Single-quoted, which bash, zsh and fish all read alike. */
export function quoted(text: string): string {
  return `'${text.replaceAll("'", "'\\''")}'`;
}
