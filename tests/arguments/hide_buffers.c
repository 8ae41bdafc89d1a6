/* A library for LD_PRELOAD that hides the functions of the buffer protocol: dlsym does not find them by name. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <string.h>

void *dlsym(void *handle, const char *name) {
    static void *(*next)(void *, const char *);
    if (!next) next = dlvsym(RTLD_NEXT, "dlsym", "GLIBC_2.34");
    if (!next) next = dlvsym(RTLD_NEXT, "dlsym", "GLIBC_2.2.5");
    if (!next) next = dlvsym(RTLD_NEXT, "dlsym", "GLIBC_2.17");
    return next(handle, strcmp(name, "PyObject_GetBuffer") ? name : "hidden");
}
