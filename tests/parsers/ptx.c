/*
 * ptx.c - any bytes as a module of PTX: refused in one line, or made into kernels whose descriptions hold
 * together.
 */
#include "tests/synthetic/ptx.h"
#include "tests/parsers/target.h"

#include <errno.h>
#include <string.h>

static void check_kernel(const struct ptx_module *module, const struct ptx_kernel *kernel)
{
    EXPECT(kernel->module == module && kernel->name[0]);
    EXPECT(!strcmp(ptx_module_find_kernel(module, kernel->name)->name, kernel->name));
    for (uint32_t i = 0; i < kernel->param_count; i++) {
        const struct ptx_param *param = &kernel->params[i];

        EXPECT(param->align && !(param->align & (param->align - 1)) && param->offset % param->align == 0);
        EXPECT(param->offset <= kernel->param_bytes && param->size <= kernel->param_bytes - param->offset);
    }
}

static void check_module(struct ptx_module *module)
{
    const struct ptx_kernel *kernels;
    const struct ptx_global *globals;
    const size_t kernel_count = ptx_module_kernels(module, &kernels);
    const size_t global_count = ptx_module_globals(module, &globals);

    for (size_t i = 0; i < kernel_count; i++)
        check_kernel(module, &kernels[i]);
    for (size_t i = 0; i < global_count; i++) {
        EXPECT(globals[i].align && !(globals[i].align & (globals[i].align - 1)));
        ptx_module_set_global_address(module, i, UINT64_C(0x7f0000000000) + (i << 32));
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct ptx_module *module = NULL;
    char error[64];
    int status;

    memset(error, 'x', sizeof error);
    status = ptx_module_parse((const char *)data, size, &module, error, sizeof error);
    EXPECT(memchr(error, '\0', sizeof error));
    judged(!status);
    if (status) {
        EXPECT(!module && error[0] && !strchr(error, '\n'));
        EXPECT(status == -EINVAL || status == -ENOSYS || status == -ENOMEM);
        return 0;
    }
    check_module(module);
    ptx_module_free(module);
    return 0;
}
