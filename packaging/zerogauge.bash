# SPDX-License-Identifier: Apache-2.0
# Completion of zerogauge for bash: the program prints the candidates. Needs no other file.
_zerogauge()
{
    mapfile -t COMPREPLY < <("${COMP_WORDS[0]}" help --complete "${COMP_WORDS[@]:1:COMP_CWORD}" 2>/dev/null)
}

complete -o bashdefault -o default -F _zerogauge zerogauge
