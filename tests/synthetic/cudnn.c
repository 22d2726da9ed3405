/*
 * cudnn.c - a stand-in for libcudnn.so.9: a handle and a version, which is what XLA asks of it before it
 * compiles for a GPU on which no operation goes to cuDNN.
 */
#include <stddef.h>
#include <stdlib.h>

#define EXPORT __attribute__((visibility("default")))

enum { STATUS_SUCCESS = 0, STATUS_ALLOC_FAILED = 1003, STATUS_BAD_PARAM = 2000 };
enum { MAJOR = 9, MINOR = 19, PATCH = 0 };

struct cudnnContext {
    void *stream;
};

int EXPORT cudnnCreate(struct cudnnContext **handle);
int EXPORT cudnnDestroy(struct cudnnContext *handle);
int EXPORT cudnnSetStream(struct cudnnContext *handle, void *stream);
int EXPORT cudnnGetStream(struct cudnnContext *handle, void **stream);
size_t EXPORT cudnnGetVersion(void);
size_t EXPORT cudnnGetCudartVersion(void);
int EXPORT cudnnGetProperty(int type, int *value);
const char EXPORT *cudnnGetErrorString(int status);

int cudnnCreate(struct cudnnContext **handle)
{
    if (!handle)
        return STATUS_BAD_PARAM;
    struct cudnnContext *context = calloc(1, sizeof(*context));
    if (!context)
        return STATUS_ALLOC_FAILED;
    *handle = context;
    return STATUS_SUCCESS;
}

int cudnnDestroy(struct cudnnContext *handle)
{
    free(handle);
    return STATUS_SUCCESS;
}

int cudnnSetStream(struct cudnnContext *handle, void *stream)
{
    if (!handle)
        return STATUS_BAD_PARAM;
    handle->stream = stream;
    return STATUS_SUCCESS;
}

int cudnnGetStream(struct cudnnContext *handle, void **stream)
{
    if (!handle || !stream)
        return STATUS_BAD_PARAM;
    *stream = handle->stream;
    return STATUS_SUCCESS;
}

size_t cudnnGetVersion(void)
{
    return MAJOR * 10000 + MINOR * 100 + PATCH;
}

size_t cudnnGetCudartVersion(void)
{
    return 13000;
}

/* type: libraryPropertyType, 0 major, 1 minor, 2 patch */
int cudnnGetProperty(int type, int *value)
{
    static const int version[] = {MAJOR, MINOR, PATCH};
    if (!value || type < 0 || type > 2)
        return STATUS_BAD_PARAM;
    *value = version[type];
    return STATUS_SUCCESS;
}

const char *cudnnGetErrorString(int status)
{
    return status == STATUS_SUCCESS ? "CUDNN_STATUS_SUCCESS" : "CUDNN_STATUS_NOT_SUPPORTED";
}
