/*
 * nvtx_injection.c - a profiler as small as can be: writes what NVTX tells of domains and ranges, a line
 * each, to the file NVTX_TEST_OUTPUT. Which functions it wants it puts into tables that NVTX gives it
 * (nvToolsExt.h, "Tool implementers").
 */
#include <nvtx3/nvToolsExt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

__attribute__((visibility("default"))) int InitializeInjectionNvtx2(NvtxGetExportTableFunc_t get_table);

static FILE *output;

/* Handles are what is handed back: texts. */
static nvtxDomainHandle_t NVTX_API domain_create(const char *name)
{
    fprintf(output, "domain %s\n", name);
    return (nvtxDomainHandle_t)(void *)strdup(name);
}

static nvtxStringHandle_t NVTX_API string_register(nvtxDomainHandle_t domain, const char *text)
{
    (void)domain;
    return (nvtxStringHandle_t)(void *)strdup(text);
}

static int NVTX_API range_push(nvtxDomainHandle_t domain, const nvtxEventAttributes_t *attributes)
{
    fprintf(output, "push %s %s %llu\n", (const char *)(void *)domain,
            attributes->messageType == NVTX_MESSAGE_TYPE_REGISTERED
                ? (const char *)(void *)attributes->message.registered
                : "?",
            attributes->payloadType == NVTX_PAYLOAD_TYPE_UNSIGNED_INT64
                ? (unsigned long long)attributes->payload.ullValue
                : 0);
    return 0;
}

static int NVTX_API range_pop(nvtxDomainHandle_t domain)
{
    fprintf(output, "pop %s\n", (const char *)(void *)domain);
    fflush(output);
    return 0;
}

int InitializeInjectionNvtx2(NvtxGetExportTableFunc_t get_table)
{
    const NvtxExportTableCallbacks *callbacks =
        (const NvtxExportTableCallbacks *)get_table(NVTX_ETID_CALLBACKS);
    NvtxFunctionTable table;
    unsigned size;

    output = fopen(getenv("NVTX_TEST_OUTPUT"), "a");
    if (!output || !callbacks || !callbacks->GetModuleFunctionTable(NVTX_CB_MODULE_CORE2, &table, &size))
        return 0;
    *table[NVTX_CBID_CORE2_DomainCreateA] = (NvtxFunctionPointer)domain_create;
    *table[NVTX_CBID_CORE2_DomainRegisterStringA] = (NvtxFunctionPointer)string_register;
    *table[NVTX_CBID_CORE2_DomainRangePushEx] = (NvtxFunctionPointer)range_push;
    *table[NVTX_CBID_CORE2_DomainRangePop] = (NvtxFunctionPointer)range_pop;
    return 1;
}
