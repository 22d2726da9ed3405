#include "hooks/symbol.h"
#include "shim/memory.h"
#include <dlfcn.h>
#include <elf.h>
#include <fcntl.h>
#include <link.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

enum { MODULES_MAX = 16 };

/* A module's file, as far as it can be used. */
struct module {
    const void *base; /* where it is loaded, as dladdr gives it */
    const unsigned char *file;
    size_t size;
    uint64_t first_address; /* of the file's first segment: 0 but for programs at fixed addresses */
    const ElfW(Sym) * symbols;
    size_t count;
    const char *names;
    size_t names_size;
};

static struct module modules[MODULES_MAX];
static unsigned module_count;

/* A table of the file, NULL where it does not lie in it. */
static const void *table(const struct module *module, uint64_t offset, uint64_t size)
{
    return offset <= module->size && size <= module->size - offset ? module->file + offset : NULL;
}

static void read_segments(struct module *module, const ElfW(Ehdr) * header)
{
    const ElfW(Phdr) *segment =
        table(module, header->e_phoff, (uint64_t)header->e_phnum * sizeof(ElfW(Phdr)));

    for (unsigned i = 0; segment && i < header->e_phnum; i++)
        if (segment[i].p_type == PT_LOAD) { /* they are in ascending order */
            module->first_address = segment[i].p_vaddr - segment[i].p_offset;
            return;
        }
}

static void read_symbols(struct module *module, const ElfW(Ehdr) * header)
{
    const ElfW(Shdr) *section =
        table(module, header->e_shoff, (uint64_t)header->e_shnum * sizeof(ElfW(Shdr)));

    for (unsigned i = 0; section && i < header->e_shnum; i++) {
        const ElfW(Shdr) * names;

        if (section[i].sh_type != SHT_SYMTAB || section[i].sh_link >= header->e_shnum)
            continue;
        names = &section[section[i].sh_link];
        module->names = table(module, names->sh_offset, names->sh_size);
        module->symbols = table(module, section[i].sh_offset, section[i].sh_size);
        module->names_size = names->sh_size;
        module->count = section[i].sh_size / sizeof(ElfW(Sym));
        if (!module->names || !module->symbols || !module->names_size ||
            module->names[module->names_size - 1] != '\0')
            module->count = 0;
        return;
    }
}

static void open_module(struct module *module, const char *path)
{
    /* The program itself goes by the name it was called by, which a shell may have looked up. */
    int fd = open(strchr(path, '/') ? path : "/proc/self/exe", O_RDONLY | O_CLOEXEC);
    const ElfW(Ehdr) * header;
    struct stat status;
    void *file;

    if (fd < 0)
        return;
    if (fstat(fd, &status) == 0 && (size_t)status.st_size >= sizeof *header) {
        file = mmap(NULL, (size_t)status.st_size, PROT_READ, MAP_PRIVATE, fd, 0);
        if (file != MAP_FAILED) {
            module->file = file;
            module->size = (size_t)status.st_size;
            header = file;
            if (!memcmp(header->e_ident, ELFMAG, SELFMAG) && header->e_phentsize == sizeof(ElfW(Phdr)) &&
                header->e_shentsize == sizeof(ElfW(Shdr))) {
                read_segments(module, header);
                read_symbols(module, header);
            }
        }
    }
    close(fd);
}

static const struct module *module_of(const Dl_info *info)
{
    struct module *module;

    for (unsigned i = 0; i < module_count; i++)
        if (modules[i].base == info->dli_fbase)
            return &modules[i];
    if (module_count == MODULES_MAX)
        return NULL;
    module = &modules[module_count++];
    *module = (struct module){.base = info->dli_fbase};
    open_module(module, info->dli_fname);
    return module;
}

/* The function an address lies in, by the module's own table. */
static const char *file_symbol(const Dl_info *info, const void *address, uint64_t *offset)
{
    const struct module *module = module_of(info);
    uint64_t wanted;

    if (!module)
        return NULL;
    wanted = (uint64_t)((const char *)address - (const char *)info->dli_fbase) + module->first_address;
    for (size_t i = 0; i < module->count; i++) {
        const ElfW(Sym) *symbol = &module->symbols[i];

        if (ELF64_ST_TYPE(symbol->st_info) != STT_FUNC || symbol->st_value > wanted ||
            wanted - symbol->st_value >= symbol->st_size || symbol->st_name >= module->names_size)
            continue;
        *offset = wanted - symbol->st_value;
        return module->names + symbol->st_name;
    }
    return NULL;
}

/* The parameters of a C++ function are cut off: they say little here, and much of it. */
static void cut_parameters(char *name)
{
    int depth = 0;

    for (char *c = name; *c; c++) {
        if (*c == '<' || *c == '{')
            depth++;
        else if ((*c == '>' && c > name && c[-1] != '-') || *c == '}')
            depth -= depth > 0;
        else if (*c == '(' && depth == 0 && c > name && strncmp(c, "(anonymous", 10) != 0 && c[1] != ')')
            *c-- = '\0';
    }
}

/* A C++ name as it was written, the C++ library's memory; NULL where it is none, or nobody can say. */
static char *demangled(const char *name)
{
    char *(*demangle)(const char *, char *, size_t *, int *) = NULL;
    void *library;
    char *text = NULL;
    int status;

    if (strncmp(name, "_Z", 2) != 0)
        return NULL;
    library = dlopen("libstdc++.so.6", RTLD_NOW | RTLD_NOLOAD);
    if (!library)
        return NULL;
    *(void **)&demangle = dlsym(library, "__cxa_demangle");
    if (demangle)
        text = demangle(name, NULL, NULL, &status);
    if (text)
        cut_parameters(text);
    dlclose(library);
    return text;
}

void symbol_text(const void *address, char *text, size_t size)
{
    const char *before = (const char *)address - 1; /* in the call, which may be the function's last */
    const char *name, *module;
    uint64_t offset;
    char *readable;
    Dl_info info;

    if (!dladdr(before, &info) || !info.dli_fname) {
        snprintf(text, size, "%p", address);
        return;
    }
    module = strrchr(info.dli_fname, '/');
    module = module ? module + 1 : info.dli_fname;
    name = info.dli_sname;
    offset = name ? (uint64_t)(before - (const char *)info.dli_saddr) : 0;
    if (!name)
        name = file_symbol(&info, before, &offset);
    if (!name) {
        offset = (uint64_t)((const char *)address - (const char *)info.dli_fbase);
        snprintf(text, size, "%s+0x%llx", module, (unsigned long long)offset);
        return;
    }
    readable = demangled(name);
    offset++; /* of the return address again */
    snprintf(text, size, "%s!%.160s+0x%llx", module, readable ? readable : name, (unsigned long long)offset);
    memory_free_foreign(readable);
}

void symbols_done(void)
{
    for (unsigned i = 0; i < module_count; i++)
        if (modules[i].file)
            munmap((void *)(uintptr_t)modules[i].file, modules[i].size);
    module_count = 0;
}
