import { type Candidates, type CompletionCommand, identifier, quoted } from './model.ts';

/** A fish script: one conditional `complete` line for each option, argument and subcommand. */
export function fishScript(program: string, commands: CompletionCommand[]): string {
  const name = identifier(program);
  const paths = commands.filter((command) => command.path.length > 0).map((command) => command.path.join(' '));
  const valued = new Set(
    commands.flatMap((command) =>
      command.options
        .filter((option) => option.value !== undefined && !option.optionalValue)
        .flatMap((option) => option.names),
    ),
  );
  return `# fish completion of ${program}; load it with: ${program} completion fish | source

# The command that the words before the cursor name, and how many arguments it has.
function __${name}_place
    set -l path
    set -l count 0
    set -l skip no
    for word in (commandline -opc)[2..-1]
        set -l longer (string join -- ' ' $path $word)
        if test $skip = yes
            set skip no
        else if string match -q -- '-*' $word
            contains -- $word ${[...valued].map(fishQuoted).join(' ')}; and set skip yes
        else if test $count -eq 0; and contains -- "$longer" ${paths.map(fishQuoted).join(' ')}
            set path $path $word
        else
            set count (math $count + 1)
        end
    end
    # In quotes: fish drops an argument that holds an empty substitution.
    set -l joined (string join -- ' ' $path)
    echo "$joined:$count"
end

function __${name}_is
    set -l place (__${name}_place)
    string match -q -- "$argv[1]:*" "$place"
end

function __${name}_at
    test (__${name}_place) = "$argv[1]:$argv[2]"
end

function __${name}_after
    set -l place (string split : (__${name}_place))
    test "$place[1]" = "$argv[1]"; and test "$place[2]" -ge "$argv[2]"
end

complete -c ${program} -f
${commands.flatMap((command) => commandLines(program, name, command)).join('\n')}
`;
}

/** fish knows only \\\\ and \\' within single quotes. */
function fishQuoted(text: string): string {
  return `'${text.replace(/[\\']/g, (character) => `\\${character}`)}'`;
}

function commandLines(program: string, name: string, command: CompletionCommand): string[] {
  const path = command.path.join(' ');
  const start = (condition: string) => `complete -c ${program} -n ${fishQuoted(condition)}`;
  const here = start(`__${name}_is ${quoted(path)}`);
  const lines = command.subcommands.map(
    (child) => `${start(`__${name}_at ${quoted(path)} 0`)} -a ${child.name} -d ${fishQuoted(child.description)}`,
  );
  for (const option of command.options) {
    const flags = option.names.map((flag) => (flag.startsWith('--') ? `-l ${flag.slice(2)}` : `-s ${flag.slice(1)}`));
    // -x: takes an argument and no file names; -r: takes an argument.
    const needs = option.value?.kind === 'files' ? ' -r' : ' -x';
    const value = option.value === undefined ? '' : (option.optionalValue ? '' : needs) + source(option.value);
    lines.push(`${here} ${flags.join(' ')} -d ${fishQuoted(option.description)}${value}`);
  }
  command.arguments.forEach((candidates, index) => {
    if (candidates.kind === 'none') return;
    const last = index === command.arguments.length - 1 && command.variadic;
    lines.push(`${start(`__${name}_${last ? 'after' : 'at'} ${quoted(path)} ${index}`)}${source(candidates)}`);
  });
  return lines;

  function source(candidates: Candidates): string {
    switch (candidates.kind) {
      case 'none':
        return '';
      case 'files':
        return ' -F';
      case 'choices':
        return ` -a ${fishQuoted(candidates.values.join(' '))}`;
      case 'dynamic':
        return ` -a ${fishQuoted(`(${program} __complete ${candidates.subject} 2>/dev/null)`)}`;
    }
  }
}
