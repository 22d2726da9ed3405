/*
 * ptx_fault.c - accesses that a kernel must not make: found by address, or by the machine as a page that is
 * not there.
 *
 * CUDA reports an access outside of memory as CUDA_ERROR_ILLEGAL_ADDRESS and a misaligned one as
 * CUDA_ERROR_MISALIGNED_ADDRESS; both end the launch (and the context, which is the driver's business).
 *
 * The window is not checked page by page: the machine does it. The handler acts only for a thread inside
 * ptx_run and an address in that launch's window; every other signal goes on to the handler that was there
 * before.
 */
#include "ptx_run.h"

#include <signal.h>
#include <stdio.h>
#include <string.h>

static _Thread_local struct ptx_exec *watched __attribute__((tls_model("global-dynamic")));
static struct sigaction before_segv, before_bus;

void ptx_fault_watch(struct ptx_exec *x)
{
    watched = x;
    __atomic_signal_fence(__ATOMIC_SEQ_CST);
}

static void fill(struct ptx_exec *x, uint64_t address, bool write, const char *reason)
{
    struct ptx_fault *fault = x->fault;
    if (!fault)
        return;
    memset(fault, 0, sizeof *fault);
    fault->kernel = x->code->pub.name;
    fault->line = x->op ? x->op->line : 0;
    fault->address = address;
    fault->write = write;
    strncpy(fault->reason, reason, sizeof fault->reason - 1);
}

void ptx_fault_raise(struct ptx_exec *x, uint64_t address, bool write, const char *reason)
{
    fill(x, address, write, reason);
    siglongjmp(x->leave, 1);
}

static void chain(int number, siginfo_t *info, void *context)
{
    const struct sigaction *old = number == SIGSEGV ? &before_segv : &before_bus;
    if (old->sa_flags & SA_SIGINFO) {
        old->sa_sigaction(number, info, context);
    } else if (old->sa_handler != SIG_DFL && old->sa_handler != SIG_IGN) {
        old->sa_handler(number);
    } else {
        /* back to the default: the access is made again and ends the process as it would have */
        struct sigaction standard = {.sa_handler = SIG_DFL};
        sigaction(number, &standard, NULL);
    }
}

static void handle(int number, siginfo_t *info, void *context)
{
    struct ptx_exec *x = watched;
    uint64_t address = (uint64_t)(uintptr_t)info->si_addr;
    if (x && info->si_code > 0) {
        const struct ptx_memory *m = &x->memory;
        uint64_t device = address - (uint64_t)m->window_delta;
        if (device - m->window_base < m->window_size) {
            bool write = x->op && (x->op->kind == PTX_OP_STORE || x->op->kind == PTX_OP_ATOMIC);
            fill(x, device, write,
                 write ? "write of memory that is not mapped" : "read of memory that is not mapped");
            siglongjmp(x->leave, 1);
        }
    }
    chain(number, info, context);
}

static void install(int number, struct sigaction *before)
{
    struct sigaction now, mine = {.sa_sigaction = handle};
    /* not blocked meanwhile: the handler is left by a jump */
    mine.sa_flags = SA_SIGINFO | SA_NODEFER | SA_ONSTACK;
    sigemptyset(&mine.sa_mask);
    if (sigaction(number, NULL, &now) || ((now.sa_flags & SA_SIGINFO) && now.sa_sigaction == handle))
        return;
    *before = now;
    sigaction(number, &mine, NULL);
}

void ptx_install_fault_handler(void)
{
    install(SIGSEGV, &before_segv);
    install(SIGBUS, &before_bus);
}

static const char *bounds_reason(enum ptx_space space)
{
    return space == PTX_SHARED ? "address outside of the block's shared memory"
                               : "address outside of the thread's local memory";
}

char *ptx_access_resolve(struct ptx_exec *x, enum ptx_space space, uint64_t address, uint32_t size,
                         uint32_t lane, bool write)
{
    const struct ptx_memory *m = &x->memory;
    if (address & (size - 1))
        ptx_fault_raise(x, address, write, "misaligned address");
    if (space == PTX_GENERIC) {
        if (address - PTX_SHARED_WINDOW < PTX_WINDOW_SIZE)
            space = PTX_SHARED;
        else if (address - PTX_LOCAL_WINDOW < PTX_WINDOW_SIZE)
            space = PTX_LOCAL;
        if (space != PTX_GENERIC)
            address &= PTX_WINDOW_SIZE - 1;
    }
    if (space == PTX_SHARED || space == PTX_LOCAL) {
        uint32_t bytes = space == PTX_SHARED ? x->shared_bytes : x->local_bytes;
        if (address >= bytes || bytes - address < size)
            ptx_fault_raise(x, address, write, bounds_reason(space));
        return space == PTX_SHARED ? x->shared + address : x->local + (size_t)lane * x->local_bytes + address;
    }
    if (address >= m->window_base && size <= m->window_size &&
        address - m->window_base <= m->window_size - size) {
        if (x->traffic)
            ptx_traffic_touch(x, address, size, write);
        return (char *)(uintptr_t)(address + (uint64_t)m->window_delta);
    }
    char *at = m->translate ? m->translate(m->ctx, address, size, write) : NULL;
    if (!at)
        ptx_fault_raise(x, address, write,
                        write ? "write of memory that is not mapped" : "read of memory that is not mapped");
    ptx_traffic_outside(x, address, size, write);
    return at;
}
