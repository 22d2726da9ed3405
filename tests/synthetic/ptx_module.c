/*
 * ptx_module.c - modules: kernels and global variables of one PTX text.
 */
#include "ptx_lower.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int complain(char *error, size_t size, uint32_t line, const char *text, const char *name)
{
    snprintf(error, size, "line %u: `%s' %s", line, name, text);
    return -EINVAL;
}

static bool find_global(const struct ptx_module *module, const char *name, uint32_t *index)
{
    for (size_t i = 0; i < module->global_count; i++)
        if (!strcmp(module->details[i].pub.name, name)) {
            *index = (uint32_t)i;
            return true;
        }
    return false;
}

/* One element of an initialiser into at; float literals become what the type says. */
static void put_number(char *at, const struct ptx_operand *o, enum ptx_type type)
{
    uint64_t bits = o->bits;
    if (o->kind == PTX_OPERAND_FLOAT) {
        double wide;
        float single;
        uint32_t low = (uint32_t)bits;
        if (o->single) {
            memcpy(&single, &low, 4);
            wide = (double)single;
        } else {
            memcpy(&wide, &bits, 8);
            single = (float)wide;
        }
        if (ptx_type_size(type) == 4) {
            memcpy(&low, &single, 4);
            bits = low;
        } else {
            memcpy(&bits, &wide, 8);
        }
    } else if (type == PTX_F32) {
        float single = (float)(int64_t)bits;
        memcpy(&bits, &single, 4);
    } else if (type == PTX_F64) {
        double wide = (double)(int64_t)bits;
        memcpy(&bits, &wide, 8);
    }
    memcpy(at, &bits, ptx_type_size(type));
}

static int initialise(struct ptx_module *module, struct ptx_module_global *g, const struct ptx_variable *v,
                      char *error, size_t error_size)
{
    uint32_t element = ptx_type_size(v->type);
    if (v->init_count > v->count)
        return complain(error, error_size, v->line, "has too many initialisers", v->name);
    char *init = calloc(1, g->pub.size);
    g->references = calloc(v->init_count, sizeof *g->references);
    g->pub.init = init;
    if (!init || !g->references)
        return -ENOMEM;
    for (uint32_t i = 0; i < v->init_count; i++) {
        const struct ptx_operand *o = &v->init[i];
        if (o->kind == PTX_OPERAND_INT || o->kind == PTX_OPERAND_FLOAT) {
            put_number(init + (size_t)i * element, o, v->type);
            continue;
        }
        /* generic(x) is parsed as the name `generic' and is not written by the compilers we run */
        uint32_t index;
        if (o->kind != PTX_OPERAND_NAME || !find_global(module, o->name, &index) || element != 8)
            return complain(error, error_size, v->line, "has an initialiser that is not understood", v->name);
        g->references[g->reference_count++] =
            (struct ptx_reference){.offset = (uint64_t)i * element, .global = index, .addend = o->bits};
    }
    return 0;
}

static int make_globals(struct ptx_module *module, const struct ptx_tree *tree, char *error,
                        size_t error_size)
{
    size_t count = 0;
    for (const struct ptx_variable *v = tree->variables; v; v = v->next)
        count += v->space != PTX_SHARED;
    module->details = calloc(count + 1, sizeof *module->details);
    module->globals = calloc(count + 1, sizeof *module->globals);
    if (!module->details || !module->globals)
        return -ENOMEM;
    for (const struct ptx_variable *v = tree->variables; v; v = v->next) {
        if (v->space == PTX_SHARED)
            continue;
        if (v->external || v->unsized)
            return complain(error, error_size, v->line, "is not defined in this module", v->name);
        struct ptx_module_global *g = &module->details[module->global_count++];
        g->pub.name = strdup(v->name);
        g->pub.size = v->count * ptx_type_size(v->type);
        g->pub.align = v->align;
        g->pub.constant = v->space == PTX_CONST;
        if (!g->pub.name)
            return -ENOMEM;
    }
    size_t i = 0;
    for (const struct ptx_variable *v = tree->variables; v; v = v->next) {
        if (v->space == PTX_SHARED)
            continue;
        if (v->init_count) {
            int status = initialise(module, &module->details[i], v, error, error_size);
            if (status)
                return status;
        }
        module->globals[i] = module->details[i].pub;
        i++;
    }
    return 0;
}

static int make_kernels(struct ptx_module *module, struct ptx_tree *tree, char *error, size_t error_size)
{
    size_t count = 0;
    for (const struct ptx_function *f = tree->functions; f; f = f->next)
        count += f->entry && f->body;
    module->kernels = calloc(count + 1, sizeof *module->kernels);
    module->codes = calloc(count + 1, sizeof *module->codes);
    if (!module->kernels || !module->codes)
        return -ENOMEM;
    for (const struct ptx_function *f = tree->functions; f; f = f->next) {
        struct ptx_code *code;
        if (!f->entry || !f->body)
            continue;
        int status = ptx_lower_kernel(module, tree, f, &code, error, error_size);
        if (status)
            return status;
        module->kernels[module->kernel_count] = code->pub;
        module->codes[module->kernel_count++] = code;
    }
    return 0;
}

int ptx_module_parse(const char *text, size_t length, struct ptx_module **out, char *error, size_t error_size)
{
    struct ptx_tree tree;
    if (error_size)
        error[0] = '\0';
    int status = ptx_tree_parse(text, length, &tree, error, error_size);
    if (status)
        return status;
    struct ptx_module *module = calloc(1, sizeof *module);
    status = module ? 0 : -ENOMEM;
    if (!status)
        status = make_globals(module, &tree, error, error_size);
    if (!status)
        status = make_kernels(module, &tree, error, error_size);
    ptx_tree_free(&tree);
    if (status) {
        ptx_module_free(module);
        return status;
    }
    *out = module;
    return 0;
}

void ptx_module_free(struct ptx_module *module)
{
    if (!module)
        return;
    for (size_t i = 0; i < module->kernel_count; i++)
        ptx_code_free(module->codes[i]);
    for (size_t i = 0; i < module->global_count; i++) {
        free((char *)module->details[i].pub.name);
        free((void *)module->details[i].pub.init);
        free(module->details[i].references);
    }
    free(module->kernels);
    free(module->codes);
    free(module->globals);
    free(module->details);
    free(module);
}

size_t ptx_module_kernels(const struct ptx_module *module, const struct ptx_kernel **out)
{
    *out = module->kernels;
    return module->kernel_count;
}

const struct ptx_kernel *ptx_module_find_kernel(const struct ptx_module *module, const char *name)
{
    for (size_t i = 0; i < module->kernel_count; i++)
        if (!strcmp(module->kernels[i].name, name))
            return &module->kernels[i];
    return NULL;
}

size_t ptx_module_globals(const struct ptx_module *module, const struct ptx_global **out)
{
    *out = module->globals;
    return module->global_count;
}

void ptx_module_set_global_address(struct ptx_module *module, size_t index, uint64_t address)
{
    module->details[index].address = address;
    for (size_t k = 0; k < module->kernel_count; k++) {
        struct ptx_code *code = module->codes[k];
        for (uint32_t i = 0; i < code->row_count; i++)
            if (code->rows[i].constant && code->rows[i].global == index)
                code->rows[i].address = address;
    }
    for (size_t g = 0; g < module->global_count; g++) {
        struct ptx_module_global *global = &module->details[g];
        for (uint32_t i = 0; i < global->reference_count; i++)
            if (global->references[i].global == index) {
                uint64_t value = address + global->references[i].addend;
                memcpy((char *)global->pub.init + global->references[i].offset, &value, sizeof value);
            }
    }
}
