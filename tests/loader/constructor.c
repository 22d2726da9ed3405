/* constructor.c - a library whose constructor looks up a driver function, with the dynamic linker's lock
 * held. */
#include <dlfcn.h>

__attribute__((visibility("default"))) void *constructor_answer;
__attribute__((visibility("default"))) extern void *constructor_answer;

__attribute__((constructor)) static void load(void)
{
    void *driver = dlopen("libcuda.so.1", RTLD_LAZY);
    constructor_answer = driver ? dlsym(driver, "cuInit") : (void *)0;
}
