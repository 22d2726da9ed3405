#include "hooks/image.h"
#include <elf.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#define XXH_INLINE_ALL
#include <xxhash.h>

/* As nvcc and the runtime write them (fatbinary_section.h, fatBinaryCtl.h). */
#define WRAPPER_MAGIC 0x466243b1u
#define FATBIN_MAGIC 0xba55ed50u

struct wrapper {
    uint32_t magic, version;
    const void *data;
};

struct fatbin {
    uint32_t magic;
    uint16_t version, header_size;
    uint64_t size; /* of what follows the header */
};

/* The end of the last thing that the headers name. */
static size_t elf_size(const void *image, size_t most)
{
    size_t size, programs;
    Elf64_Ehdr elf;

    memcpy(&elf, image, sizeof elf); /* wherever it lies */
    size = elf.e_shoff + (size_t)elf.e_shnum * elf.e_shentsize;
    programs = elf.e_phoff + (size_t)elf.e_phnum * elf.e_phentsize;

    if (programs > size)
        size = programs;
    if (size > most || elf.e_ident[EI_CLASS] != ELFCLASS64 ||
        (elf.e_shnum && elf.e_shentsize != sizeof(Elf64_Shdr)))
        return 0;
    for (unsigned i = 0; i < elf.e_shnum; i++) {
        Elf64_Shdr section;
        size_t end;

        memcpy(&section, (const char *)image + elf.e_shoff + i * sizeof section, sizeof section);
        end = section.sh_type == SHT_NOBITS ? 0 : section.sh_offset + section.sh_size;
        if (end > size)
            size = end;
    }
    return size <= most ? size : 0;
}

static size_t image_size(const void *image, size_t most)
{
    uint32_t magic;
    size_t size;

    if (most < 4 || !*(const char *)image)
        return 0;
    if (!memchr(image, '\0',
                4)) { /* a text of fewer bytes is none of these, and is not read beyond its end */
        memcpy(&magic, image, sizeof magic);
        if (magic == FATBIN_MAGIC && most >= sizeof(struct fatbin)) {
            struct fatbin head;

            memcpy(&head, image, sizeof head);
            size = head.header_size + head.size;
            return size <= most ? size : 0;
        }
        if (!memcmp(image, ELFMAG, SELFMAG))
            return most >= sizeof(Elf64_Ehdr) ? elf_size(image, most) : 0;
    }
    size = strnlen(image, most);
    return size;
}

bool image_hash(const void *image, size_t most, char hash[IMAGE_HASH])
{
    struct wrapper wrapper;
    XXH128_hash_t sum;
    size_t size;

    if (image && most >= 4 && !memchr(image, '\0', 4)) {
        memcpy(&wrapper.magic, image, sizeof wrapper.magic);
        if (wrapper.magic == WRAPPER_MAGIC && most >= sizeof wrapper) {
            memcpy(&wrapper, image, sizeof wrapper);
            image = wrapper.data;
            most = SIZE_MAX;
        }
    }
    size = image ? image_size(image, most) : 0;
    if (!size)
        return false;
    sum = XXH3_128bits(image, size);
    snprintf(hash, IMAGE_HASH, "%016llx%016llx", (unsigned long long)sum.high64,
             (unsigned long long)sum.low64);
    return true;
}

bool image_hash_file(const char *path, char hash[IMAGE_HASH])
{
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    struct stat about;
    bool found = false;
    void *memory;

    if (fd < 0)
        return false;
    if (fstat(fd, &about) == 0 && about.st_size > 0) {
        memory = mmap(NULL, (size_t)about.st_size, PROT_READ, MAP_PRIVATE, fd, 0);
        if (memory != MAP_FAILED) {
            found = image_hash(memory, (size_t)about.st_size, hash);
            munmap(memory, (size_t)about.st_size);
        }
    }
    close(fd);
    return found;
}
