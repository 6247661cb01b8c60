import { type Candidates, type CompletionCommand, identifier, quoted } from './model.ts';

/**
 * A bash script that completes `program` (one word, as typed). The script walks the words to find the command and the
 * argument at the cursor, and asks the agent for dynamic names only.
 */
export function bashScript(program: string, commands: CompletionCommand[]): string {
  const name = identifier(program);
  return `# bash completion of ${program}; load it with: source <(${program} completion bash)

# Of the command in $1: subcommands, options that take a value, all options.
_${name}_subcommands() {
  case "$1" in
${cases(commands, (command) => command.subcommands.map((child) => child.name).join(' '))}
  esac
}

_${name}_options() {
  case "$1" in
${cases(commands, (command) => command.options.flatMap((option) => option.names).join(' '))}
  esac
}

_${name}_valued() {
  case "$1" in
${cases(commands, (command) =>
  command.options
    .filter((option) => option.value !== undefined && !option.optionalValue)
    .flatMap((option) => option.names)
    .join(' '),
)}
  esac
}

# Possible values of option $2, or of argument number $2, of command $1.
_${name}_candidates() {
  case "$1:$2" in
${commands.flatMap(candidateCases).join('\n')}
  esac
}

_${name}() {
  local current="\${COMP_WORDS[COMP_CWORD]}" path="" position=0 index word kind
  local -a words=()
  COMPREPLY=()
  for ((index = 1; index < COMP_CWORD; index++)); do
    word="\${COMP_WORDS[index]}"
    if [[ "$word" == -* ]]; then
      if [[ " $(_${name}_valued "$path") " == *" $word "* ]]; then
        [[ "\${COMP_WORDS[index + 1]:-}" == "=" ]] && ((index++))
        if ((index + 1 >= COMP_CWORD)); then
          _${name}_reply "$(_${name}_candidates "$path" "$word")" "\${current#=}"
          return
        fi
        ((index++))
      fi
    elif [[ " $(_${name}_subcommands "$path") " == *" $word "* ]] && ((position == 0)); then
      path="\${path:+$path }$word"
    else
      ((++position))
    fi
  done
  if [[ "$current" == -* ]]; then
    COMPREPLY=($(compgen -W "$(_${name}_options "$path")" -- "$current"))
    return
  fi
  kind="$(_${name}_subcommands "$path")"
  if [[ -n "$kind" ]] && ((position == 0)); then
    COMPREPLY=($(compgen -W "$kind" -- "$current"))
    return
  fi
  _${name}_reply "$(_${name}_candidates "$path" "$position")" "$current"
}

_${name}_reply() {
  case "$1" in
    files) COMPREPLY=($(compgen -f -- "$2")); compopt -o filenames 2>/dev/null ;;
    "choices "*) COMPREPLY=($(compgen -W "\${1#choices }" -- "$2")) ;;
    "dynamic "*) COMPREPLY=($(compgen -W "$("\${COMP_WORDS[0]}" __complete "\${1#dynamic }" 2>/dev/null)" -- "$2")) ;;
  esac
}

complete -F _${name} ${program}
`;
}

function cases(commands: CompletionCommand[], words: (command: CompletionCommand) => string): string {
  return commands
    .filter((command) => words(command) !== '')
    .map((command) => `    ${quoted(command.path.join(' '))}) echo ${quoted(words(command))} ;;`)
    .join('\n');
}

function candidateCases(command: CompletionCommand): string[] {
  const path = command.path.join(' ');
  const lines: string[] = [];
  const add = (pattern: string, candidates: Candidates) => {
    const text = candidateText(candidates);
    if (text !== '') lines.push(`    ${pattern}) echo ${quoted(text)} ;;`);
  };
  for (const option of command.options) {
    if (option.value === undefined) continue;
    add(option.names.map((name) => quoted(`${path}:${name}`)).join(' | '), option.value);
  }
  command.arguments.forEach((candidates, index) => {
    const last = index === command.arguments.length - 1 && command.variadic;
    add(`${quoted(`${path}:${index}`)}${last ? ` | ${quoted(`${path}:`)}[0-9]*` : ''}`, candidates);
  });
  return lines;
}

function candidateText(candidates: Candidates): string {
  switch (candidates.kind) {
    case 'none':
      return '';
    case 'files':
      return 'files';
    case 'choices':
      return `choices ${candidates.values.join(' ')}`;
    case 'dynamic':
      return `dynamic ${candidates.subject}`;
  }
}
