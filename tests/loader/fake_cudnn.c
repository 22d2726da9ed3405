/*
 * fake_cudnn.c - a library that is not the driver and has symbols that begin like the driver's, one of them
 * named as a function that hbmspill handles.
 */
#define EXPORT __attribute__((visibility("default")))

EXPORT int cuInit(unsigned int flags);
EXPORT int cudnnCreate(void **handle);

int cuInit(unsigned int flags)
{
    return 1000 + (int)flags;
}

int cudnnCreate(void **handle)
{
    (void)handle;
    return 1001;
}
