# SPDX-License-Identifier: Apache-2.0
# Completion of zerogauge for bash: commands, options and names are what the program itself lists, so nothing here has
# to be kept in step with it. Needs no other file.

# The first words of the indented lines above the examples: commands, or benchmarks.
_zerogauge_commands()
{
    "$1" "${@:2}" 2>/dev/null | sed -nE '/^Examples:/q; s/^  ([a-z-]+) .*/\1/p'
}

# The long options of a command.
_zerogauge_options()
{
    "$1" "${@:2}" --help 2>/dev/null | sed -nE '/^Examples:/q; s/^ +(-[a-z], )?(--[a-z-]+).*/\2/p'
}

# What may stand behind an option; nothing: files.
_zerogauge_values()
{
    case $2 in
        --preset | -p) "$1" help presets | cut -d ' ' -f 1 ;;
        --model | -m) "$1" help models | cut -d ' ' -f 1 ;;
        --engine) echo libaio io_uring ;;
        --schedule) echo serial overlap ;;
        --device) echo cpu cuda ;;
        --level | -l) echo quick full ;;
        --dtype) echo fp32 bf16 fp16 ;;
        --clip-form) echo torch deepspeed ;;
        --case | -c) [ "$3" != check ] || "$1" check --list | cut -d ' ' -f 1 ;;
        --requirement | -r | --explain) "$1" check --list | grep -oE 'R-[A-Z]+-[0-9]+' | sort -u ;;
    esac 2>/dev/null
}

_zerogauge()
{
    local program=${COMP_WORDS[0]} current=${COMP_WORDS[COMP_CWORD]} before=${COMP_WORDS[COMP_CWORD - 1]}
    local -a command=("${COMP_WORDS[1]-}")
    local words
    # bash cuts --preset=zero1 into three words.
    if [ "$current" = = ]; then
        current=
    elif [ "$before" = = ]; then
        before=${COMP_WORDS[COMP_CWORD - 2]}
    fi
    COMPREPLY=()
    case " ${COMP_WORDS[*]:1:COMP_CWORD-1} " in *' -- '*) return ;; esac
    if [ "$COMP_CWORD" -eq 1 ]; then
        words=$(_zerogauge_commands "$program" help)
    elif [ "${command[0]}" = help ] && [ "$COMP_CWORD" -eq 2 ]; then
        words="$(_zerogauge_commands "$program" help) presets models"
    elif [ "${command[0]}" = bench ] && [ "$COMP_CWORD" -eq 2 ]; then
        words=$(_zerogauge_commands "$program" bench)
    else
        [ "${command[0]}" != bench ] || command+=("${COMP_WORDS[2]}")
        words=$(_zerogauge_values "$program" "$before" "${command[0]}")
        [ -n "$words" ] || [[ $current != -* ]] || words=$(_zerogauge_options "$program" "${command[@]}")
    fi
    mapfile -t COMPREPLY < <(compgen -W "$words" -- "$current")
}

complete -o bashdefault -o default -F _zerogauge zerogauge
