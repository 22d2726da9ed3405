/*
 * query.c - prints name and memory of every device, found the way programs find the driver: by its name, at
 * run time.
 */
#include <cuda.h>
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void *find(void *library, const char *name)
{
    void *symbol = dlsym(library, name);
    if (!symbol) {
        fprintf(stderr, "%s: not found\n", name);
        exit(1);
    }
    return symbol;
}

int main(void)
{
    CUresult (*init)(unsigned), (*get_count)(int *), (*get_name)(char *, int, CUdevice),
        (*get_total)(size_t *, CUdevice);
    char name[100];
    size_t total;
    int count;
    void *library = dlopen("libcuda.so.1", RTLD_NOW);
    if (!library) {
        fprintf(stderr, "%s\n", dlerror());
        return 1;
    }
    *(void **)&init = find(library, "cuInit");
    *(void **)&get_count = find(library, "cuDeviceGetCount");
    *(void **)&get_name = find(library, "cuDeviceGetName");
    *(void **)&get_total = find(library, "cuDeviceTotalMem_v2");
    if (init(0) != CUDA_SUCCESS || get_count(&count) != CUDA_SUCCESS)
        return 1;
    for (int i = 0; i < count; i++) {
        if (get_name(name, sizeof(name), i) != CUDA_SUCCESS || get_total(&total, i) != CUDA_SUCCESS)
            return 1;
        printf("%d: %s, %zu MiB\n", i, name, total >> 20);
    }
    return 0;
}
