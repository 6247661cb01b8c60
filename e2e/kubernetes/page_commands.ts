import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { root } from '@hearth/common/testing';

/** The commands of a section of a Markdown page: `$ ` lines of its blocks, with the lines that continue them. */
export function pageCommands(page: string, heading: string): string[] {
  const text = readFileSync(join(root, page), 'utf8');
  const [, rest] = text.split(`\n${heading}\n`);
  if (rest === undefined) throw new Error(`${page} has no line "${heading}"`);
  const [section = ''] = rest.split(/\n## /);
  const blocks = [...section.matchAll(/^```\w*\n(.*?)^```$/gms)].map(([, block = '']) => block);
  return blocks.flatMap((block) => [...block.matchAll(/^\$ ((?:.*\\\n)*.*)$/gm)].map(([, command = '']) => command));
}

/** One command of a page, as it went. */
export interface PageStep {
  command: string;
  output: string;
  seconds: number;
}

const mark = '::page-step';

/** A script for bash that runs commands as one person would, in one shell, and ends with the first that fails. */
export function pageScript(commands: string[]): string {
  const note = `{ printf '\\n${mark} %s\\n' "$EPOCHREALTIME"; } 2>&1`;
  // Programs that the page leaves in the background end with the shell.
  const ends = `trap 'kill $(jobs -p) 2>/dev/null' EXIT`;
  return [`set -e`, ends, note, ...commands.flatMap((command) => [command, note])].join('\n');
}

/** Reads the output of that script. */
export function pageSteps(commands: string[], said: string): PageStep[] {
  const parts = said.split(new RegExp(`\\n?${mark} `)).slice(1);
  const times = parts.map((part) => Number(part.slice(0, part.indexOf('\n'))));
  const outputs = parts.map((part) => part.slice(part.indexOf('\n') + 1));
  return commands.map((command, index) => ({
    command,
    output: outputs[index] ?? '',
    seconds: (times[index + 1] ?? Number.NaN) - (times[index] ?? Number.NaN),
  }));
}
