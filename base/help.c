// SPDX-License-Identifier: Apache-2.0
#include "base/help.h"

#include "base/err.h"

#include <stdlib.h>
#include <string.h>

enum { LINE_COLUMNS = 79 };

help_writer *help_write;

void help_print_examples(const char *const examples[], FILE *out)
{
    fprintf(out, "\nExamples:\n");
    for (const char *const *line = examples; *line; line++)
        fprintf(out, "  %s\n", *line);
}

// Prints text in lines of at most LINE_COLUMNS; keeps its line breaks.
static void print_wrapped(const char *text, FILE *out)
{
    size_t column = 0;
    while (*text) {
        size_t word = strcspn(text, " \n");
        if (column > 0 && column + 1 + word > LINE_COLUMNS) {
            fputc('\n', out);
            column = 0;
        }
        column += (size_t)fprintf(out, "%s%.*s", column > 0 ? " " : "", (int)word, text);
        text += word;
        if (*text == '\n')
            column = 0, fputc('\n', out);
        text += *text != '\0';
    }
}

void help_show(poptContext context, const struct poptOption *options, const struct help *help)
{
    if (help_write) {
        help_write(poptGetInvocationName(context), options, help);
        return;
    }
    // popt prints this text after "Usage: zerogauge train ".
    char *head = NULL;
    size_t bytes;
    FILE *stream = open_memstream(&head, &bytes);
    if (stream) {
        fprintf(stream, "%s\n\n", help->usage);
        print_wrapped(help->text, stream);
        if ((options->argInfo & POPT_ARG_MASK) != POPT_ARG_INCLUDE_TABLE)
            fputc('\n', stream);  // popt prints an empty line only before a group's heading
        fclose(stream);
    }
    poptSetOtherOptionHelp(context, head ? head : help->usage);
    poptPrintHelp(context, stdout, 0);
    free(head);
    help_print_examples(help->examples, stdout);
}

void help_print(poptContext context, enum poptCallbackReason reason, const struct poptOption *option,
                const char *argument, const void *row)
{
    (void)reason, (void)option, (void)argument;
    help_show(context, ((const struct help_row *)row)->options, ((const struct help_row *)row)->help);
    poptFreeContext(context);
    exit(0);
}

static void visit_table(const struct poptOption *table, const char *group, help_visitor *visit, void *context)
{
    for (const struct poptOption *row = table; row->longName || row->shortName || row->arg; row++) {
        if ((row->argInfo & POPT_ARG_MASK) == POPT_ARG_INCLUDE_TABLE)
            visit_table(row->arg, row->descrip, visit, context);
        else if ((row->argInfo & POPT_ARG_MASK) != POPT_ARG_CALLBACK && !(row->argInfo & POPT_ARGFLAG_DOC_HIDDEN))
            visit(context, group, row);
    }
}

void help_visit_options(const struct poptOption *options, help_visitor *visit, void *context)
{
    visit_table(options, NULL, visit, context);
}

void help_release(const struct poptOption *options)
{
    for (; options->longName || options->arg; options++) {
        void **value = options->arg;
        unsigned type = options->argInfo & POPT_ARG_MASK;
        if (type != POPT_ARG_STRING && type != POPT_ARG_ARGV)
            continue;
        for (char **text = type == POPT_ARG_ARGV ? *value : NULL; text && *text; text++)
            free(*text);
        free(*value);
        *value = NULL;
    }
}

enum { REFUSED = 0 };  // popt returns it for no option

// *context: the option's val; REFUSED if its number is not above 0.
static void look_at_number(void *context, const char *group, const struct poptOption *option)
{
    int *val = context;
    unsigned type = option->argInfo & POPT_ARG_MASK;
    (void)group;
    if (*val == REFUSED || option->val != *val)
        return;
    double number = type == POPT_ARG_INT        ? (double)*(int *)option->arg
                    : type == POPT_ARG_LONGLONG ? (double)*(long long *)option->arg
                                                : *(double *)option->arg;
    if (!(number > 0)) {
        err_set(ERR_USAGE, "--%s %.15g: expected a number above 0", option->longName, number);
        *val = REFUSED;
    }
}

int help_next(poptContext context, const struct poptOption *options)
{
    for (;;) {
        int code = poptGetNextOpt(context), val = code;
        if (code < 1 << 16)
            return code;
        help_visit_options(options, look_at_number, &val);
        if (val == REFUSED)
            return REFUSED;
    }
}

int help_options_end(poptContext context, const char **argv, int code)
{
    if (code == REFUSED)
        return ERR_USAGE;
    if (code >= -1)
        return ERR_NONE;
    // Of "--steps x" popt names "x", which tells nothing without the word before it.
    const char *bad = poptBadOption(context, POPT_BADOPTION_NOALIAS), *before = "";
    int names_itself = bad[0] == '-' && !strchr(".0123456789", bad[1]);
    for (int i = 1; !names_itself && argv[i] && argv[i] != bad; i++)
        before = argv[i];
    return err_set(ERR_USAGE, "%s%s%s: %s", before, *before ? " " : "", bad, poptStrerror(code));
}

int help_no_arguments(poptContext context, const char **argv, int code)
{
    const char *extra = poptPeekArg(context);
    TRY(help_options_end(context, argv, code));
    return extra ? err_set(ERR_USAGE, "unexpected argument \"%s\"; --help lists the options", extra) : ERR_NONE;
}
