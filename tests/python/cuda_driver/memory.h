/* Memory: the CPU cannot access memory of a device, and freed memory is overwritten. */

static Region *region_of(uint64_t address, size_t size) {
    for (int i = region_count - 1; i >= 0; --i) {
        Region *region = &regions[i];
        if (address >= region->address && address + size <= region->address + region->size) {
            return region;
        }
    }
    return NULL;
}

/* The address at which the driver itself accesses the bytes. Returns NULL and counts a fault for freed memory. */
static void *reach(uint64_t address, size_t size) {
    Region *region = region_of(address, size);
    if (!region) {
        return (void *)(uintptr_t)address;
    }
    if (!region->lives) {
        faults++;
        return NULL;
    }
    return region->memory + (address - region->address);
}

/* Unmaps the region that was freed first. A later access ends the process. */
static int forget_freed(void) {
    for (int i = 0; i < region_count; ++i) {
        Region *region = &regions[i];
        if (!region->lives && region->mapped) {
            munmap(region->memory, region->size);
            if ((char *)(uintptr_t)region->address != region->memory) {
                munmap((char *)(uintptr_t)region->address, region->size);
            }
            freed_bytes -= region->size;
            memmove(region, region + 1, (--region_count - i) * sizeof *region);
            return 1;
        }
    }
    return 0;
}

static int allocate(uint64_t *address, size_t size, Place place) {
    enum { FREED_REGIONS = 256, FREED_BYTES = 128 << 20 };
    while ((region_count > FREED_REGIONS || freed_bytes > FREED_BYTES) && forget_freed()) {
    }
    if (!size || region_count == REGIONS) {
        return size ? OUT_OF_MEMORY : INVALID_VALUE;
    }
    Region region = {.size = size, .device = current[depth - 1]->number, .lives = 1, .place = place, .mapped = 1};
    int file = memfd_create("device", 0);
    if (file < 0 || ftruncate(file, size)) {
        return OUT_OF_MEMORY;
    }
    region.memory = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    void *seen = region.memory;
    if (place == DEVICE) {
        seen = mmap(NULL, size, PROT_NONE, MAP_SHARED, file, 0);
    }
    close(file);
    memset(region.memory, 0xcc, size);
    region.address = (uintptr_t)seen;
    regions[region_count++] = region;
    *address = region.address;
    return SUCCESS;
}

static int release(uint64_t address) {
    Region *region = region_of(address, 1);
    if (!region || !region->lives || region->address != address) {
        faults++;
        return INVALID_VALUE;
    }
    memset(region->memory, 0xdd, region->size);
    region->lives = 0;
    freed_bytes += region->mapped ? region->size : 0;
    return SUCCESS;
}
