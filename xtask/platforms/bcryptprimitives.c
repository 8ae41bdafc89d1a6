/* The one function of bcryptprimitives.dll that Rust's standard library calls. Debian's wine 8 lacks that library. */

#include <windows.h>

/* RtlGenRandom, which advapi32.dll exports by this name. */
BOOLEAN NTAPI SystemFunction036(void *bytes, ULONG len);

__declspec(dllexport) BOOL WINAPI ProcessPrng(BYTE *bytes, SIZE_T len) {
    for (; len > 0xffff; bytes += 0xffff, len -= 0xffff) {
        if (!SystemFunction036(bytes, 0xffff)) return FALSE;
    }
    return SystemFunction036(bytes, (ULONG)len);
}
