/*
 * window.c - the window of device addresses, its alias, and the page table.
 *
 * The device addresses themselves stay PROT_NONE: a CPU access to device memory dies as it does on a machine
 * with a GPU. Contiguous frames with equal access are mapped by one mmap, so that adjacent ones merge: a
 * process has 65,530 mappings.
 */
#include "touches.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

uint64_t window_base;
int64_t window_delta;
struct ptx_memory ptx_memory;

static struct page *pages;
static uint64_t next_address; /* where the search for free addresses goes on */

static void *translate(void *ctx, uint64_t address, size_t size, bool write)
{
    (void)ctx;
    (void)write;
    void *result = NULL;
    pthread_rwlock_rdlock(&range_lock);
    const struct range *range = range_find_locked(address);
    /* Unified addressing: pinned host memory has the same address on host and device. */
    if (range && range_is_host(range) && address + size <= range->base + range->size)
        result = (void *)(uintptr_t)address;
    pthread_rwlock_unlock(&range_lock);
    return result;
}

/* At the address wished for where it is free and may be had, with room to be aligned to a page where not. */
static void *reserve(uintptr_t wish)
{
    return mmap((void *)wish, WINDOW_BYTES + PAGE, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1,
                0);
}

int window_init(void)
{
    void *window = reserve(0x100000000000), *alias = reserve(0x180000000000);
    pages = mmap(NULL, WINDOW_BYTES / PAGE * sizeof(*pages), PROT_READ | PROT_WRITE,
                 MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (window == MAP_FAILED || alias == MAP_FAILED || pages == MAP_FAILED)
        return -ENOMEM;
    window_base = round_up((uint64_t)(uintptr_t)window, PAGE);
    window_delta = (int64_t)(round_up((uint64_t)(uintptr_t)alias, PAGE) - window_base);
    next_address = window_base;
    ptx_memory = (struct ptx_memory){
        .window_base = window_base,
        .window_size = WINDOW_BYTES,
        .window_delta = window_delta,
        .translate = translate,
    };
    ptx_install_fault_handler();
    return 0;
}

struct page *window_page(uint64_t address)
{
    return &pages[(address - window_base) / PAGE];
}

static bool free_at(uint64_t address, uint64_t size)
{
    if (address < window_base || size > WINDOW_BYTES || address - window_base > WINDOW_BYTES - size)
        return false;
    for (uint64_t a = address; a < address + size; a += PAGE)
        if (window_page(a)->reserved)
            return false;
    return true;
}

static uint64_t search(uint64_t from, uint64_t to, uint64_t size, uint64_t alignment)
{
    uint64_t address = round_up(from, alignment);
    while (address < to && size <= to - address) {
        uint64_t a = address;
        while (a < address + size && !window_page(a)->reserved)
            a += PAGE;
        if (a == address + size)
            return address;
        address = round_up(a + PAGE, alignment);
    }
    return 0;
}

uint64_t window_reserve_locked(uint64_t size, uint64_t alignment, uint64_t wish)
{
    uint64_t end = window_base + WINDOW_BYTES, address = 0;
    if (!alignment)
        alignment = PAGE;
    if (size == 0 || size > WINDOW_BYTES)
        return 0;
    if (wish && !(wish & (alignment - 1)) && free_at(wish, size))
        address = wish;
    if (!address)
        address = search(next_address, end, size, alignment);
    if (!address)
        address = search(window_base, end, size, alignment);
    if (!address)
        return 0;
    for (uint64_t a = address; a < address + size; a += PAGE)
        window_page(a)->reserved = 1;
    if (!wish)
        next_address = address + size;
    return address;
}

void window_release_locked(uint64_t address, uint64_t size)
{
    memset(window_page(address), 0, size / PAGE * sizeof(struct page));
}

void window_map_locked(uint64_t address, uint32_t n, uint8_t space, const uint32_t *list)
{
    struct page *page = window_page(address);
    for (uint32_t i = 0; i < n; i++)
        page[i] = (struct page){.frame = list[i] + 1, .space = space, .reserved = 1};
    touches_page_mapped_locked(address, n * PAGE);
}

/*
 * Frames with memory behind them are put into the CPU's page table at once: taking 512 faults a page when a
 * kernel comes by costs ten times as much.
 */
static int map_run(uint64_t address, uint64_t size, const struct page *page, int prot)
{
    void *p;
    int flags = MAP_SHARED | MAP_FIXED;
    if (prot != PROT_NONE && memchr(frames_of(page->space)->real + page->frame - 1, 0, size / PAGE) == NULL)
        flags |= MAP_POPULATE;
    if (prot == PROT_NONE)
        p = mmap((void *)(uintptr_t)address, size, PROT_NONE,
                 MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0);
    else
        p = mmap((void *)(uintptr_t)address, size, prot, flags, frames_of(page->space)->fd,
                 (off_t)((page->frame - 1) * PAGE));
    return p == MAP_FAILED ? -errno : 0;
}

static int prot_of(uint8_t access)
{
    return access == CU_MEM_ACCESS_FLAGS_PROT_READWRITE ? PROT_READ | PROT_WRITE
           : access == CU_MEM_ACCESS_FLAGS_PROT_READ    ? PROT_READ
                                                        : PROT_NONE;
}

/* Makes the mappings of [address, address + size) what the page table says; host: those of the CPU, else the
 * alias. */
static int apply(uint64_t address, uint64_t size, bool host)
{
    uint64_t end = address + size;
    int first_error = 0;
    while (address < end) {
        struct page *page = window_page(address);
        uint8_t access = host ? page->host_access : page->device_access;
        uint64_t n = 1;
        while (address + n * PAGE < end) {
            struct page *q = page + n;
            if ((host ? q->host_access : q->device_access) != access)
                break;
            if (access && (q->space != page->space || q->frame != page->frame + n))
                break;
            n++;
        }
        uint64_t at = host ? address : address + (uint64_t)window_delta;
        int error = map_run(at, n * PAGE, page, prot_of(access));
        if (error && !first_error)
            first_error = error;
        address += n * PAGE;
    }
    return first_error;
}

int window_access_locked(uint64_t address, uint64_t size, uint8_t device_access, int host_access)
{
    bool host_changes = false;
    for (uint64_t a = address; a < address + size; a += PAGE) {
        struct page *page = window_page(a);
        if (device_access && !page->device_access)
            touches_page_granted_locked(a);
        page->device_access = device_access;
        if (host_access >= 0 && page->space == SPACE_HOST) {
            host_changes |= page->host_access != host_access;
            page->host_access = (uint8_t)host_access;
        }
    }
    int error = apply(address, size, false);
    if (host_changes) {
        int host_error = apply(address, size, true);
        error = error ? error : host_error;
    }
    return error;
}

void window_unmap_locked(uint64_t address, uint64_t size)
{
    struct page *page = window_page(address);
    for (uint64_t i = 0; i < size / PAGE; i++)
        if (page[i].frame && page[i].device_access)
            frames_of(page[i].space)->real[page[i].frame - 1] = 1;
    window_access_locked(address, size, 0, 0);
    for (uint64_t i = 0; i < size / PAGE; i++)
        page[i] = (struct page){.reserved = 1};
}

bool window_accessible_locked(uint64_t address, uint64_t size, bool write)
{
    uint8_t need = write ? CU_MEM_ACCESS_FLAGS_PROT_READWRITE : CU_MEM_ACCESS_FLAGS_PROT_READ;
    if (size == 0)
        return true;
    if (!window_has(address) || !window_has(address + size - 1) || address + size < address)
        return false;
    for (uint64_t a = address & ~PAGE_MASK; a < address + size; a += PAGE)
        if ((window_page(a)->device_access & need) != need)
            return false;
    return true;
}
