/* A stand-in for the CUDA driver, over memory of the host: what the tests tell it about addresses.
 * It counts nothing as a GPU; it lets the code that asks a driver run where there is none. */
#include <stdint.h>
#include <unistd.h>

enum { IS_MANAGED = 8, DEVICE_ORDINAL = 9 };
enum { SUCCESS = 0, INVALID_VALUE = 1, NOT_READY = 600 };

static uint64_t known_address;
static int known_device, known_managed, init_result;
static uint64_t last_stream;
static int synchronized;
static volatile int released;

void stand_in_release(void) {
    released = 1;
}

void stand_in_know(uint64_t address, int device, int managed) {
    known_address = address;
    known_device = device;
    known_managed = managed;
}

int stand_in_synchronized(uint64_t *stream) {
    *stream = last_stream;
    return synchronized;
}

int cuInit(unsigned flags) {
    (void)flags;
    return init_result;
}

int cuPointerGetAttribute(void *value, int attribute, uint64_t address) {
    if (address != known_address) {
        return INVALID_VALUE;
    }
    *(int *)value = attribute == DEVICE_ORDINAL ? known_device : known_managed;
    return attribute == DEVICE_ORDINAL || attribute == IS_MANAGED ? SUCCESS : INVALID_VALUE;
}

int cuStreamSynchronize(void *stream) {
    if ((uintptr_t)stream == 99) {
        return NOT_READY;
    }
    if ((uintptr_t)stream == 77) {
        /* Work that waits for the program, as a callback of its own would. */
        for (int turn = 0; turn < 20000 && !released; ++turn) {
            usleep(1000);
        }
        if (!released) {
            return NOT_READY;
        }
    }
    last_stream = (uintptr_t)stream;
    synchronized++;
    return SUCCESS;
}
