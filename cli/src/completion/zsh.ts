import { type Candidates, type CompletionCommand, identifier, quoted } from './model.ts';

/** A zsh script: one `_arguments` function for each command. */
export function zshScript(program: string, commands: CompletionCommand[]): string {
  const name = identifier(program);
  return `#compdef ${program}
# zsh completion of ${program}; load it with: source <(${program} completion zsh)

_${name}_dynamic() {
  local -a names
  names=(\${(f)"$(_call_program names \${words[1]:-${program}} __complete $1 2>/dev/null)"})
  compadd -a names
}

${commands.map((command) => commandFunction(name, command)).join('\n')}
if [[ "\${funcstack[1]}" == "_${name}" ]]; then
  _${name} "$@"
else
  compdef _${name} ${program}
fi
`;
}

function functionName(name: string, path: string[]): string {
  return ['', name, ...path.map(identifier)].join('_');
}

function commandFunction(name: string, command: CompletionCommand): string {
  const options = command.options.flatMap((option) => optionSpecs(name, option));
  const own = functionName(name, command.path);
  if (command.subcommands.length === 0) {
    const places = command.arguments.map((candidates, index) => {
      const repeated = index === command.arguments.length - 1 && command.variadic;
      return quoted(`${repeated ? '*' : String(index + 1)}:value:${action(name, candidates)}`);
    });
    return `${own}() {\n  _arguments -s ${continued([...options, ...places])}\n}\n`;
  }
  const described = command.subcommands.map((child) => quoted(`${child.name}:${child.description}`));
  const branches = command.subcommands.map(
    (child) => `        ${child.name}) ${functionName(name, [...command.path, child.name])} ;;`,
  );
  return `${own}() {
  local context state state_descr line
  typeset -A opt_args
  _arguments -C ${continued([...options, quoted('1:command:->command'), quoted('*::argument:->argument')])}
  case $state in
    command)
      local -a commands
      commands=(
        ${described.join('\n        ')}
      )
      _describe command commands
      ;;
    argument)
      case $line[1] in
${branches.join('\n')}
      esac
      ;;
  esac
}
`;
}

function continued(specs: string[]): string {
  return specs.map((spec) => `\\\n    ${spec}`).join(' ');
}

function optionSpecs(name: string, option: CompletionCommand['options'][number]): string[] {
  // These characters would end a description of _arguments.
  const description = option.description.replace(/[[\]:\\]/g, (character) => `\\${character}`);
  const value =
    option.value === undefined ? '' : `${option.optionalValue ? '::' : ':'}value:${action(name, option.value)}`;
  return option.names.map((flag) => quoted(`*${flag}[${description}]${value}`));
}

function action(name: string, candidates: Candidates): string {
  switch (candidates.kind) {
    case 'none':
      return ' ';
    case 'files':
      return '_files';
    case 'choices':
      return `(${candidates.values.join(' ')})`;
    case 'dynamic':
      return `_${name}_dynamic ${candidates.subject}`;
  }
}
